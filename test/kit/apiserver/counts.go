package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
)

// errNoRequests means that the metrics contain no request for a resource.
var errNoRequests = errors.New("the API server's metrics count no requests")

// RequestCounts are numbers of requests by the verb in the API server's metrics: GET, LIST and WATCH; POST, PUT, PATCH,
// APPLY and DELETE.
type RequestCounts map[string]int

// Reads returns the number of GETs and LISTs, without watches.
func (c RequestCounts) Reads() int { return c["GET"] + c["LIST"] }

// Writes returns the number of requests that create or change an object. APPLY is a PATCH of server-side apply.
func (c RequestCounts) Writes() int { return c["POST"] + c["PUT"] + c["PATCH"] + c["APPLY"] }

// CountRequests counts the requests for a resource, named as in paths, such as httproutes, since the API server
// started, with any response code (the metric apiserver_request_total). Neither a read nor a write is an error, because
// the name is probably wrong.
func CountRequests(ctx context.Context, client rest.Interface, resource string) (RequestCounts, error) {
	metrics, err := client.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	counts := RequestCounts{}
	for line := range strings.Lines(string(metrics)) {
		if !strings.HasPrefix(line, "apiserver_request_total{") || !strings.Contains(line, `resource="`+resource+`"`) {
			continue
		}
		var count float64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &count); err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
		_, rest, _ := strings.Cut(line, `verb="`)
		verb, _, _ := strings.Cut(rest, `"`)
		counts[verb] += int(count)
	}
	if counts.Reads()+counts.Writes() == 0 {
		return nil, fmt.Errorf("%w for %s", errNoRequests, resource)
	}
	return counts, nil
}
