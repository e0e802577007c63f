package paceline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	wire "paceline/wire"
)

var ask = Ask{Provider: "openai", Model: "gpt-4o", Cost: map[string]uint64{"tokens": 20}}

// start runs the binary until the test ends, or until it is killed; its first line says where it listens.
func start(t *testing.T, args ...string) (addresses map[string]string, kill func()) {
	t.Helper()
	command := exec.Command(os.Getenv("PACELINE_BIN"), args...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("PACELINE_BIN: %v", err)
	}
	var once sync.Once
	kill = func() { once.Do(func() { _ = command.Process.Kill(); _ = command.Wait() }) }
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no first line of %v: %v", args, err)
	}
	addresses = map[string]string{}
	for _, found := range regexp.MustCompile(`(grpc|http)=(\S+)`).FindAllStringSubmatch(line, -1) {
		addresses[found[1]] = found[2]
	}
	return addresses, kill
}

func serve(t *testing.T, grpc string, more ...string) (map[string]string, func()) {
	t.Helper()
	return start(t, append([]string{"serve", "--grpc", grpc, "--http", "127.0.0.1:0", "--log-filter", "warn"}, more...)...)
}

func limiterOf(t *testing.T, addresses ...string) *Limiter {
	t.Helper()
	limiter, err := New(Options{Addresses: addresses})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(limiter.Close)
	return limiter
}

// provider makes one attempt at the mock provider, and keeps its last status.
func provider(mock map[string]string, last *int) func(context.Context, *Slot) (Report, error) {
	return func(ctx context.Context, slot *Slot) (Report, error) {
		body := fmt.Sprintf(`{"model": %q, "max_tokens": 9, "messages": [{"content": "Hello"}]}`, slot.Target().GetModel())
		url := "http://" + mock["http"] + "/v1/chat/completions"
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return Report{}, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return Report{}, err
		}
		defer answer.Body.Close()
		report := Response(answer)
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return Report{}, err
		}
		*last = answer.StatusCode
		var said struct {
			Usage struct {
				Total uint64 `json:"total_tokens"`
			}
		}
		if answer.StatusCode >= 400 {
			report.Body = text
		} else if err := json.Unmarshal(text, &said); err == nil {
			report.Usage = map[string]uint64{"tokens": said.Usage.Total}
		}
		return report, nil
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metric looks until the service's metrics say this.
func metric(t *testing.T, service map[string]string, line string) {
	t.Helper()
	pattern, until := regexp.MustCompile(line), time.Now().Add(30*time.Second)
	for metrics := ""; !pattern.MatchString(metrics); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("no %s in %s", line, metrics)
		}
		metrics = get(t, "http://"+service["http"]+"/metrics")
	}
}

func count(t *testing.T, mock map[string]string, name string) int {
	t.Helper()
	var counts map[string]interface{}
	if err := json.Unmarshal([]byte(get(t, "http://"+mock["http"]+"/mock/stats")), &counts); err != nil {
		t.Fatal(err)
	}
	number, _ := counts[name].(float64)
	return int(number)
}

func TestARefusedCallIsSentAgainWhenTheServiceSaysSo(t *testing.T) {
	service, _ := serve(t, "127.0.0.1:0")
	mock, _ := start(t, "mock-provider", "--first", "2", "--status", "429", "--retry-after", "1")
	status, began := 0, time.Now()
	reported, err := limiterOf(t, service["grpc"]).Call(context.Background(), ask, provider(mock, &status))
	if err != nil || status != 200 || reported.Attempt != 3 || reported.Verdict != wire.Verdict_VERDICT_DONE {
		t.Fatalf("%v %v %+v", err, status, reported)
	}
	if time.Since(began) < 2*time.Second || count(t, mock, "sends") != 3 {
		t.Fatalf("twice told to wait for a second: %v", time.Since(began))
	}
	metric(t, service, `paceline_units_total\{[^}]*kind="retry",meter="tokens"[^}]*\} 11\b`)
}

func TestFortyAtOnceStayBelowTheLimit(t *testing.T) {
	service, _ := serve(t, "127.0.0.1:0")
	mock, _ := start(t, "mock-provider", "--limit", "requests=10/s,burst=10")
	limiter := limiterOf(t, service["grpc"])
	var all sync.WaitGroup
	for nth := 0; nth < 40; nth++ {
		all.Add(1)
		go func() {
			defer all.Done()
			status := 0
			if _, err := limiter.Call(context.Background(), ask, provider(mock, &status)); err != nil || status != 200 {
				t.Errorf("%v %v", err, status)
			}
		}()
	}
	all.Wait()
	if rejected := count(t, mock, "rejected"); rejected > 4 {
		t.Fatalf("%d were rejected", rejected)
	}
}

func oneAMinute(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/paceline.yaml"
	config := "providers: {openai: {limits: {requests: {limit: 1, per: 1m, burst: 1}}, start_level: full}}\n"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestADenialIsAnErrorAndWhatIsGivenBackIsThereForTheNext(t *testing.T) {
	service, _ := serve(t, "127.0.0.1:0", "--config", oneAMinute(t))
	limiter, ctx := limiterOf(t, service["grpc"]), context.Background()
	first, err := limiter.Acquire(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	hasty, patient := ask, ask
	hasty.MaxWait, patient.MaxWait = 10*time.Millisecond, 10*time.Minute
	var denied *Denied
	if _, err := limiter.Acquire(ctx, hasty); !errors.As(err, &denied) || denied.Reason != wire.Reason_REASON_DEADLINE || denied.RetryAfter <= 0 {
		t.Fatalf("%v", err)
	}
	// One that leaves the line does not hold up the next.
	short, cancel := context.WithTimeout(ctx, 1200*time.Millisecond)
	defer cancel()
	if _, err := limiter.Acquire(short, patient); !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &denied) {
		t.Fatalf("%v", err)
	}
	first.Close()
	began := time.Now()
	second, err := limiter.Acquire(ctx, patient)
	if err != nil || time.Since(began) > 10*time.Second {
		t.Fatalf("%v %v", err, time.Since(began))
	}
	second.Close()
	wrong := ask
	wrong.Provider = "opnai"
	if _, err := limiter.Acquire(ctx, wrong); err == nil || !strings.Contains(err.Error(), "openai") {
		t.Fatalf("%v", err)
	}
}

func TestALongCallKeepsItsLeaseAndAStreamIsReportedTwice(t *testing.T) {
	service, _ := serve(t, "127.0.0.1:0")
	limiter, ctx := limiterOf(t, service["grpc"]), context.Background()
	long := ask
	long.RunTime = time.Second
	slot, err := limiter.Acquire(ctx, long)
	if err != nil {
		t.Fatal(err)
	}
	slot.Sent()
	header := http.Header{"X-Ratelimit-Remaining-Tokens": {"9"}}
	first, err := slot.Report(ctx, Report{Status: 200, Header: header, MoreFollows: true})
	if err != nil || !first.Applied || first.Verdict != wire.Verdict_VERDICT_UNSPECIFIED {
		t.Fatalf("%v %+v", err, first)
	}
	time.Sleep(3 * time.Second) // three times the lease
	last, err := slot.Report(ctx, Report{Status: 200, Usage: map[string]uint64{"tokens": 12}})
	if err != nil || !last.Applied || last.Verdict != wire.Verdict_VERDICT_DONE {
		t.Fatalf("%v %+v", err, last)
	}
	left, err := limiter.Acquire(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	left.Sent()
	left.Close()
	metric(t, service, `paceline_reports_total\{outcome="abandoned",[^}]*\} 1\b`)
}

func TestADeadlineEndsAnAttempt(t *testing.T) {
	service, _ := serve(t, "127.0.0.1:0")
	mock, _ := start(t, "mock-provider", "--latency", "30s")
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	status := 0
	if _, err := limiterOf(t, service["grpc"]).Call(ctx, ask, provider(mock, &status)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	metric(t, service, `paceline_reports_total\{outcome="timeout",[^}]*\} 1\b`)
}

func TestTheNextReplicaAnswersWhenOneIsGone(t *testing.T) {
	one, kill := serve(t, "127.0.0.1:0")
	two, _ := serve(t, "127.0.0.1:0")
	mock, _ := start(t, "mock-provider")
	limiter, status := limiterOf(t, one["grpc"], two["grpc"]), 0
	for nth := 0; nth < 4; nth++ {
		began := time.Now()
		reported, err := limiter.Call(context.Background(), ask, provider(mock, &status))
		if err != nil || reported.Verdict != wire.Verdict_VERDICT_DONE || time.Since(began) > 2*time.Second {
			t.Fatalf("%v %+v %v", err, reported, time.Since(began))
		}
		kill()
	}
}

func TestWithNobodyThereCallsGoOnAndComeBack(t *testing.T) {
	service, kill := serve(t, "127.0.0.1:0")
	mock, _ := start(t, "mock-provider", "--first", "1", "--status", "429", "--retry-after", "1")
	limiter, status := limiterOf(t, service["grpc"]), 0
	kill()
	began := time.Now()
	reported, err := limiter.Call(context.Background(), ask, provider(mock, &status))
	if err != nil || status != 200 || reported.Attempt != 2 || time.Since(began) < 3*time.Second {
		t.Fatalf("two seconds for the service, one for the provider: %v %v %+v %v", err, status, reported, time.Since(began))
	}
	began = time.Now()
	slot, err := limiter.Acquire(context.Background(), ask)
	if err != nil || slot.IsServed() || time.Since(began) > 500*time.Millisecond {
		t.Fatalf("%v %v", err, time.Since(began))
	}
	serve(t, service["grpc"])
	for isServed := false; !isServed; time.Sleep(100 * time.Millisecond) {
		slot, err := limiter.Acquire(context.Background(), ask)
		if err != nil || time.Since(began) > 30*time.Second {
			t.Fatalf("it is back: %v", err)
		}
		isServed = slot.IsServed()
		slot.Close()
	}
}

func TestAWorkerThatWatchesGoesAtOnceAndIsToldOfAllTheSame(t *testing.T) {
	service, kill := serve(t, "127.0.0.1:0", "--mode", "shadow")
	mock, _ := start(t, "mock-provider", "--first", "1", "--status", "429", "--retry-after", "1")
	limiter, err := New(Options{Addresses: []string{service["grpc"]}, Mode: Shadow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(limiter.Close)
	status := 0
	reported, err := limiter.Call(context.Background(), ask, provider(mock, &status))
	if err != nil || status != 200 || reported.Attempt != 2 {
		t.Fatalf("%v %v %+v", err, status, reported)
	}
	metric(t, service, `paceline_shadow_asks_total\{[^}]*\} 2\b`)
	metric(t, service, `paceline_units_total\{[^}]*kind="retry",meter="tokens"[^}]*\} 11\b`)
	kill()
	for nth := 0; nth < 3; nth++ {
		began := time.Now()
		slot, err := limiter.Acquire(context.Background(), ask)
		if err != nil || slot.IsServed() || time.Since(began) > 500*time.Millisecond {
			t.Fatalf("nobody notices that it is gone: %v %v", err, time.Since(began))
		}
		slot.Close()
	}
}

func TestAWorkerThatWatchesLeavesTheLineOfAServiceThatEnforces(t *testing.T) {
	service, _ := serve(t, "127.0.0.1:0", "--config", oneAMinute(t))
	enforced, ctx := limiterOf(t, service["grpc"]), context.Background()
	first, err := enforced.Acquire(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	watching, err := New(Options{Addresses: []string{service["grpc"]}, Mode: Shadow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watching.Close)
	patient := ask
	patient.MaxWait = 10 * time.Minute
	slot, err := watching.Acquire(ctx, patient)
	if err != nil || slot.IsServed() {
		t.Fatalf("%v", err)
	}
	slot.Sent()
	metric(t, service, `paceline_queue_depth\{[^}]*priority="normal"[^}]*\} 1\b`)
	for nth := 0; nth < 2; nth++ { // the second one is one too many, and does no harm
		if _, err := slot.Report(ctx, Report{Status: 200}); err != nil {
			t.Fatal(err)
		}
	}
	slot.Close()
	metric(t, service, `paceline_queue_depth\{[^}]*priority="normal"[^}]*\} 0\b`)
}

func TestReplicasAreWeighedAsEveryOtherClientWeighsThem(t *testing.T) {
	if found := weight(&wire.Target{Provider: "openai", Account: "prod"}, "10.0.0.1:7070"); found != 0x13028db1955ea6b4 {
		t.Fatalf("%x", found)
	}
}

func TestAReportTellsNoSecret(t *testing.T) {
	header := http.Header{"Set-Cookie": {"secret"}, "X-A": {"1", "2"}}
	report := Report{Status: 401, Header: header, Body: []byte("Incorrect API key provided: sk-abcd***wxyz. A task-list is fine.")}
	request := report.request("lease", 1, true)
	if len(request.Headers) != 2 || string(request.Body) != "Incorrect API key provided: [hidden]. A task-list is fine." || !request.Final {
		t.Fatalf("%v", request)
	}
}

func TestARetryAfterIsReadInAllItsForms(t *testing.T) {
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	date := func(seconds int) string {
		return wall.Add(time.Duration(seconds) * time.Second).Format(http.TimeFormat)
	}
	for _, one := range []struct {
		header   http.Header
		expected time.Duration
	}{
		{http.Header{"Retry-After": {"2"}}, 2 * time.Second},
		{http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
		{http.Header{"Retry-After": {date(12)}}, 12 * time.Second},
		{http.Header{"Retry-After": {date(12)}, "Date": {date(7)}}, 5 * time.Second},
		{http.Header{"Retry-After": {date(-1)}}, 0},
		{http.Header{"Retry-After": {"soon"}}, 0},
		{http.Header{"Retry-After": {"NaN"}}, 0},
	} {
		if found := retryAfter(one.header, wall); found != one.expected {
			t.Errorf("%v: %v", one.header, found)
		}
	}
	refused := Report{Status: 429, Header: http.Header{"Retry-After": {"2"}}}
	if wait, isAgain := waitAlone(refused, 2, 1, wall); !isAgain || wait != 2500*time.Millisecond {
		t.Errorf("%v %v", wait, isAgain)
	}
	if _, isAgain := waitAlone(refused, 3, 0, wall); isAgain {
		t.Error("three times at most")
	}
}
