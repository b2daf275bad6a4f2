package demandclient

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// Path is where a replica serves its reports, one a second.
	Path = "/demand"
	// query asks for changes alone after the first one. Replicas of older releases send whole reports all the same.
	query = "?changes=true"

	// connectDeadline bounds the time from a request to the first byte of its answer.
	connectDeadline = 2 * time.Second
	// silence is how long a replica may send nothing before its report counts no more.
	silence = 3 * time.Second
	// retryFirst and retryLast bound the pause after a connection ended; it doubles in between.
	retryFirst, retryLast = 100 * time.Millisecond, time.Second
	// maxReport is the longest report that is read, in bytes: 100,000 objects take 20 MB.
	maxReport = 64 << 20
	// bufferSize is what a connection reads at once.
	bufferSize = 64 << 10
)

// Errors of a connection to a replica. They are logged.
var (
	errAnswer = errors.New("unusable answer")
	errEnded  = errors.New("the replica has ended the connection")
)

// Replica is a replica of the interceptor.
type Replica struct {
	// Name is the name of its Pod.
	Name string
	// Address is that of its port for administration, host:port.
	Address string
}

// Reader knows the demand for objects while Run runs. Make it with New; all its methods are safe for
// concurrent use.
type Reader struct {
	client *http.Client
	logger *slog.Logger

	mu       sync.Mutex // guards what follows
	replicas []Replica
	changed  chan struct{}              // holds one element when replicas are others
	reports  map[Replica]*metrics.Report // of those that were asked; nil for no usable answer
	updated  chan struct{}              // closed and replaced when there is a report
	values   map[string]metrics.Value    // of objects of which all is known and nothing has changed, by their names in reports
	changes  map[string]chan struct{}   // closed when the demand for an object, by its name in reports, may be another one
}

// New returns a Reader that knows no replica. It logs which replicas don't answer.
func New(logger *slog.Logger) *Reader {
	return &Reader{
		client: &http.Client{
			Transport:     &http.Transport{ResponseHeaderTimeout: connectDeadline, DisableCompression: true, MaxIdleConnsPerHost: -1},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		logger: logger, changed: make(chan struct{}, 1),
		reports: map[Replica]*metrics.Report{}, updated: make(chan struct{}), changes: map[string]chan struct{}{}, values: map[string]metrics.Value{},
	}
}

// SetReplicas says which replicas there are, ready or not.
func (r *Reader) SetReplicas(replicas []Replica) {
	sorted := slices.SortedFunc(slices.Values(replicas), func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	r.mu.Lock()
	r.replicas = slices.Compact(sorted)
	clear(r.values)
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Demand is the demand for an object. Nobody may change what it returns. The error has demand.ErrUnknown in its chain and names the proxy or
// replica that is missing; the Value beside it is a lower bound, see demand.Merge.
func (r *Reader) Demand(key model.Key) (metrics.Value, error) {
	name := key.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, is := r.values[name]; is {
		return value, nil
	}
	reports := make([]metrics.Report, 0, len(r.replicas))
	var absent []string
	for _, replica := range r.replicas {
		if report := r.reports[replica]; report != nil {
			reports = append(reports, *report)
		} else {
			absent = append(absent, replica.Name)
		}
	}
	value, err := metrics.Merge(key, reports, absent)
	if err == nil {
		r.values[name] = value
	}
	return value, err
}

// HasAsked says that each replica has answered, or failed to, since it is known.
func (r *Reader) HasAsked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.replicas, func(each Replica) bool {
		_, wasAsked := r.reports[each]
		return !wasAsked
	})
}

// Updated returns a channel that is closed with the next report, or when one is missed. It is asked for before Demand.
func (r *Reader) Updated() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updated
}

// Changed returns a channel that is closed when Demand may say something else of an object. It is asked for before Demand.
func (r *Reader) Changed(key model.Key) <-chan struct{} {
	name := key.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	change, isWaitedFor := r.changes[name]
	if !isWaitedFor {
		change = make(chan struct{})
		r.changes[name] = change
	}
	return change
}

// Run reads until ctx ends; then nothing is known any more.
func (r *Reader) Run(ctx context.Context) {
	server.RunEach(ctx, func() []Replica {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.replicas
	}, r.changed, r.follow)
}

// follow keeps the report of one replica up to date until ctx ends.
func (r *Reader) follow(ctx context.Context, replica Replica) {
	retry, isSilent := retryFirst, false
	for ctx.Err() == nil {
		isHeard, err := r.read(ctx, replica)
		r.miss(replica)
		if ctx.Err() != nil {
			return
		}
		if isHeard {
			retry, isSilent = retryFirst, false
		}
		if !isSilent {
			r.logger.WarnContext(ctx, "An interceptor tells no demand; what its proxies count is unknown",
				slog.String("replica", replica.Name), slog.String("address", replica.Address), slog.Any("error", err))
		}
		isSilent = true
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = min(2*retry, retryLast)
	}
}

// miss takes note that a replica has no report.
func (r *Reader) miss(replica Replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.replicas, replica) {
		r.reports[replica] = nil
	} else {
		delete(r.reports, replica)
	}
	r.tell(nil, true)
}

// take takes in what a replica reports. Changes alone are of no use without a report before.
func (r *Reader) take(replica Replica, report metrics.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var before metrics.Report
	known := r.reports[replica]
	if known != nil {
		before = *known
	} else if report.HeldOnly || report.ChangesOnly {
		return fmt.Errorf("%w: changes to a report that never came", errAnswer)
	}
	names, isOfAll := report.News(before)
	if slices.Contains(r.replicas, replica) {
		whole := report.After(before)
		r.reports[replica] = &whole
	}
	r.tell(names, isOfAll || known == nil)
	return nil
}

// tell tells those who wait for a report, and for a change of objects, by their names, or of any.
func (r *Reader) tell(names []string, isOfAll bool) {
	close(r.updated)
	r.updated = make(chan struct{})
	if isOfAll {
		for _, change := range r.changes {
			close(change)
		}
		clear(r.changes)
		clear(r.values)
		return
	}
	for _, name := range names {
		delete(r.values, name)
		if change, isWaitedFor := r.changes[name]; isWaitedFor {
			close(change)
			delete(r.changes, name)
		}
	}
}

// read reads the reports of one connection until it ends, and says whether there was one.
func (r *Reader) read(ctx context.Context, replica Replica) (isHeard bool, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silent := time.AfterFunc(connectDeadline+silence, func() {
		stop(fmt.Errorf("%w: nothing for %v", errAnswer, silence))
	})
	defer silent.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+replica.Address+Path+query, http.NoBody)
	if err != nil {
		return false, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return false, errors.Join(err, context.Cause(ctx))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%w: GET %s is answered with %s", errAnswer, request.URL, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, bufferSize), maxReport)
	for lines.Scan() {
		var report metrics.Report
		err := json.Unmarshal(lines.Bytes(), &report)
		if err == nil {
			err = r.take(replica, report)
		}
		if err != nil {
			return isHeard, fmt.Errorf("%w: GET %s: %w", errAnswer, request.URL, err)
		}
		silent.Reset(silence)
		isHeard = true
	}
	if cause := context.Cause(ctx); cause != nil {
		return isHeard, cause
	}
	if err := lines.Err(); err != nil {
		return isHeard, err
	}
	return isHeard, errEnded
}
