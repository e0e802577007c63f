package paceline

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	wire "paceline/wire"
)

const (
	// How long calls wait for a service that does not answer, before they go on without it.
	patience = 2 * time.Second
	// How much longer than it may be held an RPC may take.
	slack = 3 * time.Second
	// How often a service that is away is looked for.
	lookEvery = time.Second
)

// ErrUnreachable is in the error of a report that nobody took.
var ErrUnreachable = errors.New("no Paceline service answers")

type replica struct {
	name   string
	conn   *grpc.ClientConn
	client wire.RateLimiterClient
	isDown int32
}

// replicas knows which replica is asked first, and what happens when it does not answer.
type replicas struct {
	all  []*replica
	away int32
	look sync.Mutex
	last time.Time
}

func connect(addresses []string) (*replicas, error) {
	found := &replicas{}
	for _, address := range addresses {
		name := strings.TrimPrefix(address, "http://")
		pings := keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 1500 * time.Millisecond}
		conn, err := grpc.Dial(name, grpc.WithInsecure(), grpc.WithKeepaliveParams(pings), grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
		if err != nil {
			found.close()
			return nil, fmt.Errorf("paceline: the address %q cannot be used: %w", address, err)
		}
		found.all = append(found.all, &replica{name: name, conn: conn, client: wire.NewRateLimiterClient(conn)})
	}
	return found, nil
}

func (replicas *replicas) close() {
	for _, replica := range replicas.all {
		_ = replica.conn.Close()
	}
}

// isAway tells whether nobody answered last time. Then nobody waits for an answer; one look a second, beside the calls, finds out
// whether somebody is back.
func (replicas *replicas) isAway() bool {
	if atomic.LoadInt32(&replicas.away) == 0 {
		return false
	}
	replicas.look.Lock()
	defer replicas.look.Unlock()
	if time.Since(replicas.last) > lookEvery {
		replicas.last = time.Now()
		go func() {
			// It names nothing, so it changes nothing: whoever refuses it is there.
			_ = replicas.send(context.Background(), &wire.Target{}, 0, func(ctx context.Context, client wire.RateLimiterClient) error {
				_, err := client.Release(ctx, &wire.ReleaseRequest{})
				return err
			})
		}()
	}
	return true
}

// send makes an RPC at the scope's replica, then at the others, until one answers: every request may be repeated.
func (replicas *replicas) send(
	ctx context.Context, scope *wire.Target, held time.Duration, rpc func(context.Context, wire.RateLimiterClient) error,
) error {
	within := patience
	if held > patience {
		within = held + slack
	}
	until := time.Now()
	if atomic.LoadInt32(&replicas.away) == 0 {
		until = until.Add(patience)
	}
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		var last error
		for _, replica := range replicas.order(scope) {
			try, cancel := context.WithTimeout(ctx, within)
			err := rpc(try, replica.client)
			cancel()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			isElsewhere, notBefore := meaning(err)
			if isElsewhere {
				atomic.StoreInt32(&replica.isDown, 1)
				last = err
				continue
			}
			atomic.StoreInt32(&replica.isDown, 0)
			atomic.StoreInt32(&replicas.away, 0)
			if notBefore == 0 {
				return err
			}
			// It protects itself: it is there.
			last = err
			if err := sleep(ctx, notBefore+time.Duration(chance()*float64(notBefore)/4)); err != nil {
				return err
			}
			until = time.Now().Add(patience)
		}
		if !time.Now().Before(until) {
			atomic.StoreInt32(&replicas.away, 1)
			return fmt.Errorf("%w at %s: %v", ErrUnreachable, replicas.names(), last)
		}
		if pause > 500*time.Millisecond {
			pause = 500 * time.Millisecond
		}
		if err := sleep(ctx, pause/2+time.Duration(chance()*float64(pause)/2)); err != nil {
			return err
		}
	}
}

// meaning tells what a failed RPC means: another replica may be asked for the same, or this one not before some time has passed.
func meaning(err error) (isElsewhere bool, notBefore time.Duration) {
	if err == nil {
		return false, 0
	}
	answer := status.Convert(err)
	switch answer.Code() {
	case codes.Unavailable, codes.Aborted, codes.Canceled, codes.DeadlineExceeded:
		return true, 0
	case codes.ResourceExhausted:
		for _, detail := range answer.Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay() != nil {
				delay := info.GetRetryDelay()
				return false, time.Duration(delay.GetSeconds())*time.Second + time.Duration(delay.GetNanos())
			}
		}
		return false, time.Second
	}
	return false, 0
}

func (replicas *replicas) names() string {
	names := make([]string, 0, len(replicas.all))
	for _, replica := range replicas.all {
		names = append(names, replica.name)
	}
	return strings.Join(names, ", ")
}

// order has those that answer first, each in the order that every worker has for the scope.
func (replicas *replicas) order(scope *wire.Target) []*replica {
	ordered := append([]*replica(nil), replicas.all...)
	sort.SliceStable(ordered, func(a, b int) bool {
		one, two := ordered[a], ordered[b]
		if downOne, downTwo := atomic.LoadInt32(&one.isDown), atomic.LoadInt32(&two.isDown); downOne != downTwo {
			return downOne < downTwo
		}
		return weight(scope, one.name) > weight(scope, two.name)
	})
	return ordered
}

// weight is what a replica weighs for a scope: FNV-1a over provider, account and ip:port, finished as MurmurHash3 does.
func weight(scope *wire.Target, replica string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, octet := range []byte(scope.GetProvider() + "\x00" + scope.GetAccount() + "\x00" + replica) {
		hash = (hash ^ uint64(octet)) * 0x100000001b3
	}
	hash = (hash ^ hash>>33) * 0xff51afd7ed558ccd
	hash = (hash ^ hash>>33) * 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

// sleep never ends early by the monotonic clock; it fails when the context ends before.
func sleep(ctx context.Context, length time.Duration) error {
	until := time.Now().Add(length)
	for left := length; left > 0; left = time.Until(until) {
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return nil
}
