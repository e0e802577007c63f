package paceline

import (
	"math"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// What a worker does when nobody makes it wait: the service is off, only watches, or does not answer. Then calls go at once, and
// between attempts the worker waits as SDKs do.

const (
	attemptsAlone = 3
	firstBackoff  = 500 * time.Millisecond
	lastBackoff   = 8 * time.Second
	// The longest wait named by the provider that is waited for.
	longestWait = time.Minute
)

// isRefused tells whether the call did not run and is worth another attempt.
func (report Report) isRefused() bool {
	switch report.Outcome {
	case ConnectionFailed:
		return true
	case Responded:
		return report.Status == 429 || report.Status == 503 || report.Status == 529
	}
	return false
}

// waitAlone tells how long to wait before the next attempt, by what the provider said; false: there is none.
func waitAlone(report Report, attempt uint32, chance float64, wall time.Time) (time.Duration, bool) {
	if !report.isRefused() || attempt >= attemptsAlone {
		return 0, false
	}
	said := retryAfter(report.Header, wall)
	switch {
	case said > longestWait:
		return 0, false
	case said > 0:
		spread := said / 4
		if spread > time.Second {
			spread = time.Second
		}
		return said + time.Duration(float64(spread)*chance), true
	}
	backoff := firstBackoff << (attempt - 1)
	if backoff > lastBackoff {
		backoff = lastBackoff
	}
	return time.Duration(float64(backoff) * chance), true
}

// retryAfter reads retry-after-ms, else retry-after in seconds or as a date, which counts from the provider's own date. Zero: none.
func retryAfter(header http.Header, wall time.Time) time.Duration {
	number := func(name string, unit time.Duration) time.Duration {
		value, err := strconv.ParseFloat(strings.TrimSpace(header.Get(name)), 64)
		if err != nil || math.IsNaN(value) || value <= 0 {
			return 0
		}
		return time.Duration(math.Min(value, 1e6) * float64(unit))
	}
	if wait := number("Retry-After-Ms", time.Millisecond); wait > 0 {
		return wait
	}
	if wait := number("Retry-After", time.Second); wait > 0 {
		return wait
	}
	until, err := http.ParseTime(header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(header.Get("Date")); err == nil {
		wall = theirs
	}
	if wait := until.Sub(wall); wait > 0 {
		return wait
	}
	return 0
}

func chance() float64 { return rand.Float64() }
