package paceline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	wire "paceline/wire"
)

// Reported is what the service made of a report.
type Reported struct {
	// DONE, RETRY, FAIL_OVER, GIVE_UP; UNSPECIFIED: the call goes on.
	Verdict wire.Verdict
	// Why, when it is given up.
	Reason wire.Reason
	// A sentence for a person.
	Detail string
	// Whether the service still had the lease.
	Applied bool
	// Which attempt was reported, from 1.
	Attempt uint32
}

// A Slot is the right to send one call now, and the duty to report what came of it. Its lease is renewed until
// it is reported or closed: defer its Close.
type Slot struct {
	limiter  *Limiter
	request  *wire.AcquireRequest
	grant    *wire.Grant
	mode     wire.Mode
	received time.Time
	seq      uint32
	isSent   int32
	settle   sync.Once
	settled  chan struct{}
	beside   *beside
}

// beside is the ask of a call that did not wait for it, and what is told of the call, in order.
type beside struct {
	told   chan func(*Slot)
	isOver func()
	lease  atomic.Value
}

func newSlot(limiter *Limiter, request *wire.AcquireRequest, grant *wire.Grant, mode wire.Mode, received time.Time) *Slot {
	slot := &Slot{limiter: limiter, request: request, grant: grant, mode: mode, received: received, settled: make(chan struct{})}
	if ttl := grant.GetTtl().AsDuration(); ttl > 0 {
		go slot.renew(ttl * 2 / 5)
	}
	return slot
}

// Target tells where to send.
func (slot *Slot) Target() *wire.Target {
	if target := slot.grant.GetTarget(); target != nil {
		return target
	}
	return slot.request.GetTarget()
}

// Attempt tells which attempt of the call this is, from 1.
func (slot *Slot) Attempt() uint32 { return slot.request.GetAttempt() }

// RequestID is the name of the logical call.
func (slot *Slot) RequestID() string { return slot.request.GetRequestId() }

// IsServed tells whether the service gave it; false when it is off or does not answer.
func (slot *Slot) IsServed() bool { return slot.grant != nil }

// IsLate tells whether it was kept too long to be used: close it and ask again with the same RequestID.
func (slot *Slot) IsLate() bool {
	within := slot.grant.GetWait().AsDuration() + slot.grant.GetUseWithin().AsDuration()
	return slot.IsServed() && atomic.LoadInt32(&slot.isSent) == 0 && longestSince(slot.received) > within
}

// Sent marks the call as sent: from here on it may have run.
func (slot *Slot) Sent() {
	if atomic.SwapInt32(&slot.isSent, 1) == 0 {
		slot.besides((*Slot).Sent)
	}
}

// besides tells the service beside the call; nobody waits for it. A call has a handful of things to tell.
func (slot *Slot) besides(tell func(*Slot)) {
	if slot.beside == nil {
		return
	}
	select {
	case <-slot.settled: // the last word was said
		return
	default:
	}
	select {
	case slot.beside.told <- tell:
	default:
	}
}

// leaseID is opaque; empty where the service gave none, or none yet.
func (slot *Slot) leaseID() string {
	if slot.beside != nil {
		lease, _ := slot.beside.lease.Load().(string)
		return lease
	}
	return slot.grant.GetLeaseId()
}

// Report tells how the attempt went. A stream: its first byte with MoreFollows, then its end.
func (slot *Slot) Report(ctx context.Context, report Report) (Reported, error) {
	answer, err := slot.tell(ctx, report, false)
	return slot.reported(answer), err
}

// ReportAndRetry tells how the attempt went, and waits for the next slot if the call is to be sent again. The error is Denied if there is
// none for it.
func (slot *Slot) ReportAndRetry(ctx context.Context, report Report) (Reported, *Slot, error) {
	// Where nobody makes calls wait, the next slot would be there too early.
	isPaced := slot.IsServed() && slot.mode == wire.Mode_MODE_ENFORCE
	answer, err := slot.tell(ctx, report, isPaced)
	if errors.Is(err, ErrUnreachable) {
		answer, err, isPaced = judgeAlone(report, slot.Attempt()), nil, false // nobody judges it but us
	}
	reported := slot.reported(answer)
	if err != nil || !isToBeSentAgain(answer) {
		return reported, nil, err
	}
	if !isPaced {
		wait, isAgain := waitAlone(report, slot.Attempt(), chance(), time.Now())
		deadline, hasDeadline := ctx.Deadline()
		if !isAgain || hasDeadline && time.Until(deadline) <= wait {
			return reported, nil, nil
		}
		if err := sleep(ctx, wait); err != nil {
			return reported, nil, err
		}
	}
	request := proto.Clone(slot.request).(*wire.AcquireRequest)
	request.Attempt, request.Ticket, request.PreviousLeaseId = slot.Attempt()+1, nil, slot.leaseID()
	next, err := slot.limiter.slot(ctx, request, answer.GetNext())
	return reported, next, err
}

// Close ends the slot without a report: given back if it was not sent, else abandoned. After a last report it does nothing.
func (slot *Slot) Close() {
	select {
	case <-slot.settled:
		return
	default:
	}
	switch {
	case !slot.IsServed():
		slot.besides((*Slot).Close)
	case atomic.LoadInt32(&slot.isSent) == 1 || slot.IsLate():
		go func() {
			// Its lease ends by itself should this fail.
			_, _ = slot.tell(context.Background(), Report{Outcome: Abandoned, Arrived: time.Now()}, false)
		}()
	default:
		slot.limiter.giveBack(slot.Target(), &wire.ReleaseRequest{What: &wire.ReleaseRequest_LeaseId{LeaseId: slot.grant.GetLeaseId()}})
	}
	slot.end()
}

func (slot *Slot) end() {
	slot.settle.Do(func() {
		close(slot.settled)
		if slot.beside != nil {
			slot.beside.isOver()
			close(slot.beside.told)
		}
	})
}

func (slot *Slot) tell(ctx context.Context, report Report, wantsRetry bool) (*wire.ReportResponse, error) {
	slot.Sent()
	if report.Arrived.IsZero() {
		report.Arrived = time.Now()
	}
	if !slot.IsServed() {
		slot.besides(func(real *Slot) { _, _ = real.tell(context.Background(), report, false) }) // its lease ends by itself
	}
	if !report.MoreFollows {
		slot.end()
	}
	if !slot.IsServed() {
		return judgeAlone(report, slot.Attempt()), nil
	}
	if ctx.Err() != nil {
		ctx = context.Background() // the caller left; what it did is true all the same
	}
	seq, held := atomic.AddUint32(&slot.seq, 1), time.Duration(0)
	if wantsRetry {
		held = firstHold
	}
	var answer *wire.ReportResponse
	err := slot.limiter.replicas.send(ctx, slot.Target(), held, func(ctx context.Context, client wire.RateLimiterClient) (err error) {
		answer, err = client.Report(ctx, report.request(slot.grant.GetLeaseId(), seq, wantsRetry))
		return err
	})
	return answer, err
}

// renew says that the call still runs. Number 0 renews and takes no number.
func (slot *Slot) renew(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-slot.settled:
			return
		case <-ticker.C:
			request := &wire.ReportRequest{LeaseId: slot.grant.GetLeaseId(), Outcome: wire.Outcome_OUTCOME_RUNNING}
			// The next one may arrive.
			_ = slot.limiter.replicas.send(context.Background(), slot.Target(), 0, func(ctx context.Context, client wire.RateLimiterClient) error {
				_, err := client.Report(ctx, request)
				return err
			})
		}
	}
}

func (slot *Slot) reported(answer *wire.ReportResponse) Reported {
	return Reported{answer.GetVerdict(), answer.GetReason(), answer.GetDetail(), answer.GetApplied(), slot.Attempt()}
}

// isToBeSentAgain: as the verdict says; of a lease that the service had lost, what the provider refused outright.
func isToBeSentAgain(answer *wire.ReportResponse) bool {
	switch answer.GetVerdict() {
	case wire.Verdict_VERDICT_RETRY, wire.Verdict_VERDICT_FAIL_OVER:
		return true
	case wire.Verdict_VERDICT_UNSPECIFIED:
		kind := strings.TrimPrefix(answer.GetSignal().GetKind().String(), "ANSWER_KIND_")
		return !answer.GetApplied() && answer.GetSignal().GetRetryable() && (kind == "THROTTLED" || kind == "OVERLOADED")
	}
	return false
}

// judgeAlone is what an SDK would make of an answer.
func judgeAlone(report Report, attempt uint32) *wire.ReportResponse {
	answer := &wire.ReportResponse{Applied: true, Verdict: wire.Verdict_VERDICT_GIVE_UP}
	_, isAgain := waitAlone(report, attempt, 0, time.Now())
	switch {
	case report.MoreFollows:
		answer.Verdict = wire.Verdict_VERDICT_UNSPECIFIED
	case isAgain:
		answer.Verdict = wire.Verdict_VERDICT_RETRY
	case report.Outcome == Responded && report.Status < 400:
		answer.Verdict = wire.Verdict_VERDICT_DONE
	}
	return answer
}
