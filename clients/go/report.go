package paceline

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	wire "paceline/wire"
)

// An Outcome tells how an attempt went.
type Outcome int

const (
	// Responded: the provider answered.
	Responded Outcome = iota
	// TimedOut: no answer in time; the call may have run.
	TimedOut
	// ConnectionFailed: it was never sent.
	ConnectionFailed
	// Abandoned: the caller left after sending; the call may have run.
	Abandoned
)

// The longest part of a body that the service reads.
const longestBody = 8 * 1024

// Headers that are never told, and what looks like a key: some providers quote the one they refuse.
var (
	secretName = regexp.MustCompile(`(?i)authori[sz]|authenticate|cookie|secret|password|credential|api-?key|session`)
	key        = regexp.MustCompile(`\b(?:sk|pk|rk|gsk|xai|hf|r8|nvapi|pplx)[-_][\w*-]{6,}|\b(?:AIza|ya29\.|AKIA|eyJ)[\w.-]{8,}|\b[Bb]earer\s+[\w.*-]{6,}`)
)

// A Report tells how an attempt went.
type Report struct {
	Outcome Outcome
	// HTTP status.
	Status int
	// As received; secrets are left out.
	Header http.Header
	// The start of an error's body.
	Body []byte
	// Meter -> units really used.
	Usage map[string]uint64
	// The usage is a guess.
	UsageEstimated bool
	// When the answer arrived; the moment of the report if zero.
	Arrived time.Time
	// Another report of this response follows: this one is from its first byte.
	MoreFollows bool
}

// Response is the report of an answer of net/http.
func Response(answer *http.Response) Report {
	return Report{Outcome: Responded, Status: answer.StatusCode, Header: answer.Header, Arrived: time.Now()}
}

// Failed is the report of an error of net/http: whether the call may have run.
func Failed(err error) Report {
	var operation *net.OpError
	var name *net.DNSError
	report := Report{Outcome: TimedOut, Arrived: time.Now()}
	switch {
	case errors.Is(err, context.Canceled):
		report.Outcome = Abandoned
	case errors.As(err, &name), errors.As(err, &operation) && operation.Op == "dial":
		report.Outcome = ConnectionFailed
	}
	return report
}

// request is the report as it is to be sent now: an answer ages.
func (report Report) request(leaseID string, seq uint32, wantsRetry bool) *wire.ReportRequest {
	outcomes := map[Outcome]wire.Outcome{
		Responded:        wire.Outcome_OUTCOME_RESPONSE,
		TimedOut:         wire.Outcome_OUTCOME_TIMEOUT,
		ConnectionFailed: wire.Outcome_OUTCOME_CONNECTION_FAILED,
		Abandoned:        wire.Outcome_OUTCOME_ABANDONED,
	}
	request := &wire.ReportRequest{
		LeaseId:        leaseID,
		Seq:            seq,
		Outcome:        outcomes[report.Outcome],
		Status:         uint32(report.Status),
		Usage:          report.Usage,
		UsageEstimated: report.UsageEstimated,
		Final:          !report.MoreFollows,
		Age:            durationpb.New(time.Since(report.Arrived)),
	}
	// Cleaned before it is cut: half a key is a key that no pattern knows.
	if len(report.Body) > 0 {
		start := report.Body
		if len(start) > 2*longestBody {
			start = start[:2*longestBody]
		}
		request.Body = key.ReplaceAll(start, []byte("[hidden]"))
	}
	if len(request.Body) > longestBody {
		request.Body = request.Body[:longestBody]
	}
	for name, values := range report.Header {
		if secretName.MatchString(name) {
			continue
		}
		for _, value := range values {
			request.Headers = append(request.Headers, &wire.Header{Name: name, Value: strings.ToValidUTF8(value, "?")})
		}
	}
	if wantsRetry {
		request.Retry = &wire.RetryAsk{Wanted: true}
	}
	return request
}
