package paceline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestMain is the worker of `paceline conformance` where the kit starts it.
func TestMain(m *testing.M) {
	if kit := os.Getenv("KIT_URL"); kit != "" {
		if err := work(kit); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestTheConformanceKitFindsNothingWrong(t *testing.T) {
	binary := os.Getenv("PACELINE_BIN")
	command := exec.Command(binary, "conformance", "--json", "--worker", os.Args[0])
	var told, beside bytes.Buffer
	command.Stdout, command.Stderr = &told, &beside
	failed := command.Run()
	var found struct {
		Situations []struct {
			ID string `json:"id"`
		} `json:"situations"`
	}
	if err := json.Unmarshal(told.Bytes(), &found); err != nil {
		t.Fatalf("%s conformance told nothing: %v\n%s", binary, failed, beside.Bytes())
	}
	known := map[string]bool{}
	for _, one := range found.Situations {
		known[one.ID] = true
	}
	for _, name := range situationsOfTheManual(t) {
		if !known[name] {
			t.Errorf("%s does not know %s, which docs/conformance.md has: it is old, build it again", binary, name)
		}
	}
	if failed != nil {
		t.Fatalf("%v\n%s", failed, told.Bytes())
	}
}

// situationsOfTheManual are the names in its tables of three columns; `check` says where it is.
func situationsOfTheManual(t *testing.T) []string {
	manual, err := os.ReadFile(os.Getenv("PACELINE_MANUAL"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| [^|]+ \\| [^|]+ \\|$")
	var names []string
	for _, found := range row.FindAllSubmatch(manual, -1) {
		names = append(names, string(found[1]))
	}
	if len(names) == 0 {
		t.Fatal("docs/conformance.md has no table of situations")
	}
	return names
}

type job struct {
	ID         string            `json:"id"`
	Provider   string            `json:"provider"`
	Account    string            `json:"account"`
	Model      string            `json:"model"`
	Tokens     uint64            `json:"tokens"`
	DeadlineMS int64             `json:"deadline_ms"`
	CancelMS   *int64            `json:"cancel_after_ms"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	Stream     bool              `json:"stream"`
}

type ended struct {
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"`
}

func work(kit string) error {
	limiter, err := New(Options{})
	if err != nil {
		return err
	}
	defer limiter.Close()
	for {
		answer, err := http.Get(kit + "/job")
		if err != nil {
			return err
		}
		var next job
		if answer.StatusCode == http.StatusNoContent {
			return nil
		}
		err = json.NewDecoder(answer.Body).Decode(&next)
		answer.Body.Close()
		if err != nil {
			return err
		}
		body, err := json.Marshal(next.run(limiter))
		if err != nil {
			return err
		}
		told, err := http.Post(kit+"/done/"+next.ID, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		told.Body.Close()
	}
}

func (job job) run(limiter *Limiter) ended {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(job.DeadlineMS)*time.Millisecond)
	defer cancel()
	if job.CancelMS != nil {
		left := time.AfterFunc(time.Duration(*job.CancelMS)*time.Millisecond, cancel)
		defer left.Stop()
	}
	last := ended{Outcome: "failed"}
	ask := Ask{Provider: job.Provider, Account: job.Account, Model: job.Model, Cost: map[string]uint64{"tokens": job.Tokens}}
	_, err := limiter.Call(ctx, ask, func(ctx context.Context, slot *Slot) (Report, error) {
		report, status, err := job.attempt(ctx, slot)
		if last = (ended{Outcome: "failed"}); status != 0 {
			last = ended{Outcome: "answered", Status: status}
		}
		return report, err
	})
	var denied *Denied
	if errors.As(err, &denied) {
		return ended{Outcome: "denied"}
	}
	if errors.Is(err, context.Canceled) {
		return ended{Outcome: "cancelled"}
	}
	return last
}

// attempt makes one attempt: its report, and the status that the caller gets.
func (job job) attempt(ctx context.Context, slot *Slot) (Report, int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, job.URL, bytes.NewReader([]byte(job.Body)))
	if err != nil {
		return Report{}, 0, err
	}
	for name, value := range job.Headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return Report{}, 0, err
	}
	defer answer.Body.Close()
	report, told := Response(answer), make(chan error, 1)
	head := report
	head.MoreFollows = true
	if job.Stream {
		// Told beside the stream, which goes on meanwhile; the end is told after it.
		go func() { _, err := slot.Report(ctx, head); told <- err }()
	} else {
		told <- nil
	}
	body, err := io.ReadAll(answer.Body)
	if failed := <-told; failed != nil {
		return Report{}, 0, failed
	}
	switch {
	case err != nil:
		return Report{Outcome: Abandoned, Usage: map[string]uint64{"tokens": 8}, UsageEstimated: true, Arrived: time.Now()}, 0, nil
	case answer.StatusCode >= 400:
		report.Body = body
	case job.Stream:
		report = Report{Status: answer.StatusCode, Usage: used(body), Arrived: time.Now()}
	default:
		report.Usage = used(body)
	}
	return report, answer.StatusCode, nil
}

func used(body []byte) map[string]uint64 {
	found := regexp.MustCompile(`"total_tokens"\s*:\s*(\d+)`).FindAllSubmatch(body, -1)
	if len(found) == 0 {
		return nil
	}
	total, err := strconv.ParseUint(string(found[len(found)-1][1]), 10, 64)
	if err != nil {
		return nil
	}
	return map[string]uint64{"tokens": total}
}
