// Package paceline is what a worker in Go uses: ask the service for a slot, send, report what the provider said.
package paceline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	wire "paceline/wire"
)

const (
	// How long the service holds an ask that has a place in line, and one that has none.
	hold      = 10 * time.Second
	firstHold = time.Second
)

// An Ask is one logical call: where it goes and what it will cost there. The deadline of the context is handed down.
type Ask struct {
	// A name of the catalogue or of the service's configuration.
	Provider string
	Model    string
	// Whose quota is used: an alias, never the key itself.
	Account string
	// Meter -> units: tokens, or input_tokens and output_tokens, ... (requests is 1 by itself).
	Cost map[string]uint64
	// The cost is a guess: one that is too large is clamped instead of refused.
	CostEstimated bool
	// The longest time spent waiting for slots, over all attempts; zero: as the class has it.
	MaxWait time.Duration
	// How long the call may run, where that is much longer than usual: a slot is renewed while it is open.
	RunTime  time.Duration
	Priority wire.Priority
	Tenant   string
	Labels   map[string]string
	// The request id of the call that this one is made for.
	Parent string
	// Whether sending it twice does harm.
	Repeat wire.Repeat
	// One of your own, unique in the tenant; a random UUID if empty.
	RequestID string
}

// Denied is the decision that a call is not to be sent.
type Denied struct {
	Reason wire.Reason
	// A sentence for a person.
	Detail string
	// From now until the same ask could work; zero: never.
	RetryAfter time.Duration
}

func (denied *Denied) Error() string {
	return fmt.Sprintf("paceline: denied (%s): %s", strings.TrimPrefix(denied.Reason.String(), "REASON_"), denied.Detail)
}

// Options of a limiter.
type Options struct {
	// host:port of each replica; PACELINE_ADDR (with commas), else 127.0.0.1:7070.
	Addresses []string
	// Of asks that name none; PACELINE_ACCOUNT and PACELINE_TENANT.
	Account string
	Tenant  string
	// PACELINE_MODE if it is ModeOfEnvironment.
	Mode Mode
}

// A Mode is what this worker makes of the service.
type Mode int

const (
	// ModeOfEnvironment is PACELINE_MODE, else Enforce.
	ModeOfEnvironment Mode = iota
	// Enforce: calls wait until the service lets them go.
	Enforce
	// Shadow: every call goes at once, and the ask goes beside it.
	Shadow
	// Off: nobody is asked.
	Off
)

// A Limiter is shared by all calls of a process.
type Limiter struct {
	replicas *replicas
	options  Options
	said     sync.Mutex
	saidAt   time.Time
}

// New makes a limiter. It connects by itself, whenever the service is there.
func New(options Options) (*Limiter, error) {
	or := func(value, variable string) string {
		if value != "" {
			return value
		}
		return os.Getenv(variable)
	}
	options.Account, options.Tenant = or(options.Account, "PACELINE_ACCOUNT"), or(options.Tenant, "PACELINE_TENANT")
	if options.Mode == ModeOfEnvironment {
		modes := map[string]Mode{"": Enforce, "enforce": Enforce, "shadow": Shadow, "off": Off}
		name, isKnown := os.Getenv("PACELINE_MODE"), false
		if options.Mode, isKnown = modes[name]; !isKnown {
			return nil, fmt.Errorf("paceline: PACELINE_MODE: `%s` is no mode; write `enforce`, `shadow` or `off`", name)
		}
	}
	addresses := options.Addresses
	for _, address := range strings.Split(os.Getenv("PACELINE_ADDR"), ",") {
		if address = strings.TrimSpace(address); address != "" && len(options.Addresses) == 0 {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		addresses = []string{"127.0.0.1:7070"}
	}
	replicas, err := connect(addresses)
	if err != nil {
		return nil, err
	}
	return &Limiter{replicas: replicas, options: options}, nil
}

// Close closes its connections.
func (limiter *Limiter) Close() { limiter.replicas.close() }

// Acquire waits for a slot and returns when the call may be sent: never before. When the context ends, the place is given back.
func (limiter *Limiter) Acquire(ctx context.Context, ask Ask) (*Slot, error) {
	request := &wire.AcquireRequest{
		RequestId:     ask.RequestID,
		Attempt:       1,
		Target:        &wire.Target{Provider: ask.Provider, Account: ask.Account, Model: ask.Model},
		Cost:          ask.Cost,
		CostEstimated: ask.CostEstimated,
		Priority:      ask.Priority,
		Tenant:        ask.Tenant,
		Labels:        ask.Labels,
		Parent:        ask.Parent,
		Repeat:        ask.Repeat,
	}
	if request.RequestId == "" {
		request.RequestId = randomID()
	}
	if ask.Account == "" {
		request.Target.Account = limiter.options.Account
	}
	if ask.Tenant == "" {
		request.Tenant = limiter.options.Tenant
	}
	if ask.MaxWait > 0 {
		request.MaxWait = durationpb.New(ask.MaxWait)
	}
	if ask.RunTime > 0 {
		request.RunTime = durationpb.New(ask.RunTime)
	}
	return limiter.slot(ctx, request, nil)
}

// Call sends a call as often as the service says. send makes one attempt, with the SDK's own retries turned off, and says how it went; an
// error means that there was no answer. What it did last is what the call did; why it ended is in Reported.
func (limiter *Limiter) Call(ctx context.Context, ask Ask, send func(context.Context, *Slot) (Report, error)) (Reported, error) {
	slot, err := limiter.Acquire(ctx, ask)
	if err != nil {
		return Reported{}, err
	}
	defer func() { slot.Close() }() // should send panic
	for {
		slot.Sent()
		report, failed := send(ctx, slot)
		if failed != nil {
			report = Failed(failed)
		}
		reported, next, err := slot.ReportAndRetry(ctx, report)
		var denied *Denied
		switch {
		case next != nil:
			slot = next
			continue
		case failed != nil:
			return reported, failed
		case errors.As(err, &denied):
			reported.Detail = denied.Error()
		case err != nil:
			reported.Detail = err.Error()
		}
		return reported, nil
	}
}

// slot is a slot for the next attempt. answer came with a report.
func (limiter *Limiter) slot(ctx context.Context, request *wire.AcquireRequest, answer *wire.AcquireResponse) (*Slot, error) {
	switch limiter.options.Mode {
	case Off:
		return limiter.alone(request), nil
	case Shadow:
		return limiter.watched(request), nil
	}
	slot, err := limiter.served(ctx, request, answer, nil)
	if errors.Is(err, ErrUnreachable) {
		limiter.say(err)
		return limiter.alone(request), nil
	}
	return slot, err
}

// served asks, keeps its place, and sleeps until the call may be sent. Of a call that is on its way already, and over when `over` ends, only
// a place in line is left then: what became of it is told all the same.
func (limiter *Limiter) served(
	ctx context.Context, request *wire.AcquireRequest, answer *wire.AcquireResponse, over context.Context,
) (*Slot, error) {
	var held *wire.ReleaseRequest
	defer func() {
		if held != nil {
			limiter.giveBack(request.Target, held)
		}
	}()
	for {
		if answer == nil {
			if limiter.replicas.isAway() {
				return nil, ErrUnreachable
			}
			var err error
			if answer, err = limiter.ask(ctx, request); err != nil {
				return nil, err
			}
		}
		received, mode := time.Now(), answer.GetMode()
		switch outcome := answer.GetOutcome().(type) {
		case *wire.AcquireResponse_Grant:
			grant := outcome.Grant
			if over != nil {
				return newSlot(limiter, request, grant, mode, received), nil
			}
			held = &wire.ReleaseRequest{What: &wire.ReleaseRequest_LeaseId{LeaseId: grant.GetLeaseId()}}
			wait := grant.GetWait().AsDuration()
			if err := sleep(ctx, wait-time.Since(received)); err != nil {
				return nil, err
			}
			if longestSince(received) > wait+grant.GetUseWithin().AsDuration() {
				answer = nil // woke too late: what was granted for then is not for now
				continue
			}
			held = nil
			return newSlot(limiter, request, grant, mode, received), nil
		case *wire.AcquireResponse_Queued:
			ticket := outcome.Queued.GetTicket()
			held = &wire.ReleaseRequest{What: &wire.ReleaseRequest_Ticket{Ticket: ticket}}
			request = proto.Clone(request).(*wire.AcquireRequest)
			request.Ticket = ticket
			if over != nil {
				ctx = over
			}
			if err := sleep(ctx, outcome.Queued.GetComeBackIn().AsDuration()-time.Since(received)); err != nil {
				return nil, err
			}
			answer = nil
		default:
			held = nil
			denial := answer.GetDenial()
			return nil, &Denied{denial.GetReason(), denial.GetDetail(), denial.GetRetryAfter().AsDuration()}
		}
	}
}

func (limiter *Limiter) ask(ctx context.Context, request *wire.AcquireRequest) (*wire.AcquireResponse, error) {
	held := firstHold
	if len(request.GetTicket()) > 0 {
		held = hold
	}
	deadline, hasDeadline := ctx.Deadline()
	var answer *wire.AcquireResponse
	err := limiter.replicas.send(ctx, request.GetTarget(), held, func(ctx context.Context, client wire.RateLimiterClient) (err error) {
		now := proto.Clone(request).(*wire.AcquireRequest)
		if hasDeadline {
			now.Deadline = durationpb.New(time.Until(deadline))
		}
		answer, err = client.Acquire(ctx, now)
		return err
	})
	return answer, err
}

// giveBack gives a place or a lease back, in the background: nobody waits for it.
func (limiter *Limiter) giveBack(scope *wire.Target, what *wire.ReleaseRequest) {
	go func() {
		// It ends by itself should this fail.
		_ = limiter.replicas.send(context.Background(), scope, 0, func(ctx context.Context, client wire.RateLimiterClient) error {
			_, err := client.Release(ctx, what)
			return err
		})
	}()
}

// alone is a slot that no service gave.
func (limiter *Limiter) alone(request *wire.AcquireRequest) *Slot {
	return newSlot(limiter, request, nil, wire.Mode_MODE_OFF, time.Now())
}

// watched is a slot for a call that goes at once, with the ask beside it. Whatever becomes of the ask, the call knows nothing of it.
func (limiter *Limiter) watched(request *wire.AcquireRequest) *Slot {
	slot := newSlot(limiter, request, nil, wire.Mode_MODE_SHADOW, time.Now())
	over, isOver := context.WithCancel(context.Background())
	beside := &beside{told: make(chan func(*Slot), 16), isOver: isOver}
	slot.beside = beside
	go func() {
		defer isOver()
		real, err := limiter.served(context.Background(), proto.Clone(request).(*wire.AcquireRequest), nil, over)
		if err == nil {
			beside.lease.Store(real.grant.GetLeaseId())
		}
		for tell := range beside.told {
			if err == nil {
				tell(real)
			}
		}
	}()
	return slot
}

// say says once a minute that calls go on without the service.
func (limiter *Limiter) say(err error) {
	limiter.said.Lock()
	defer limiter.said.Unlock()
	if time.Since(limiter.saidAt) < time.Minute {
		return
	}
	limiter.saidAt = time.Now()
	log.Printf("paceline: %v; calls go on unpaced. Is `paceline serve` running there?", err)
}

// longestSince is the time since by the clock that says more: the monotonic one may stand still while a machine sleeps. Only to tell that
// something is too late.
func longestSince(then time.Time) time.Duration {
	steady, wall := time.Since(then), time.Now().Round(0).Sub(then.Round(0))
	if wall > steady {
		return wall
	}
	return steady
}

// randomID is a UUID, version 4.
func randomID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // the machine has no randomness
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
