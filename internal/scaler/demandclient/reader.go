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
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// Path is where a replica serves its stream of reports, one a second.
	Path = "/demand"
	// query requests only changes after the first report. Replicas of older releases ignore it and send whole reports.
	query = "?changes=true"

	// connectTimeout bounds the time from a request to the first byte of the response.
	connectTimeout = 2 * time.Second
	// silence is how long a replica may send nothing before its report becomes invalid.
	silence = 3 * time.Second
	// retryFirst and retryLast bound the pause before a reconnect; it doubles in between.
	retryFirst, retryLast = 100 * time.Millisecond, time.Second
	// maxReport limits the size of a report in bytes: 100,000 objects take 20 MB.
	maxReport = 64 << 20
	// bufferSize is the initial read buffer of a connection in bytes.
	bufferSize = 64 << 10
)

// Errors of a connection to a replica. They are logged.
var (
	errResponse = errors.New("unusable response")
	errEnded    = errors.New("the replica ended the connection")
)

// Reader receives the reports of replicas while Run runs. Make it with New. It is safe for concurrent use.
type Reader struct {
	client   *http.Client
	security *Security // nil for plain HTTP without a token
	logger   *slog.Logger

	mu              sync.Mutex // guards the fields below
	replicas        []endpoints.Pod
	replicasChanged chan struct{}                     // receives one element when replicas change
	reports         map[endpoints.Pod]*metrics.Report // no entry before the first attempt; nil after a failed one
	updated         chan struct{}                     // closed and replaced at the next report, or the loss of one
	values          map[string]metrics.Value          // known demand, by the object's name in reports
	changes         map[string]chan struct{}          // closed when the demand may change, by the object's name in reports
}

// New returns a Reader without replicas. It logs replicas that do not respond. Without a Security it connects by plain
// HTTP.
func New(security *Security, logger *slog.Logger) *Reader {
	transport := &http.Transport{
		ResponseHeaderTimeout: connectTimeout, DisableCompression: true, MaxIdleConnsPerHost: -1,
	}
	if security != nil {
		transport.DialTLSContext = security.dial
	}
	return &Reader{
		security: security,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		logger: logger, replicasChanged: make(chan struct{}, 1),
		reports: map[endpoints.Pod]*metrics.Report{}, updated: make(chan struct{}),
		changes: map[string]chan struct{}{}, values: map[string]metrics.Value{},
	}
}

// SetReplicas sets the replicas, including those that are not ready.
func (r *Reader) SetReplicas(replicas []endpoints.Pod) {
	sorted := slices.SortedFunc(slices.Values(replicas), func(a, b endpoints.Pod) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	r.mu.Lock()
	r.replicas = slices.Compact(sorted)
	clear(r.values)
	r.mu.Unlock()
	select {
	case r.replicasChanged <- struct{}{}:
	default:
	}
}

// Demand returns the demand for an object. The caller must not modify the Value. The error has metrics.ErrUnknown in
// its chain and names the missing proxy or replica; the Value is then a lower bound, see metrics.Merge.
func (r *Reader) Demand(key model.Key) (metrics.Value, error) {
	name := key.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, ok := r.values[name]; ok {
		return value, nil
	}
	reports, missing := r.latest()
	value, err := metrics.Merge(key, reports, missing)
	if err == nil {
		r.values[name] = value
	}
	return value, err
}

// Connections returns the number of connections between clients and the proxies of a fleet. The error has
// metrics.ErrUnknown in its chain and names the missing proxy or replica.
func (r *Reader) Connections(fleet model.Fleet) (float64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reports, missing := r.latest()
	return metrics.MergeConnections(fleet, reports, missing)
}

// latest returns the reports, and the names of the replicas without one. The caller holds the lock.
func (r *Reader) latest() (reports []metrics.Report, missing []string) {
	reports = make([]metrics.Report, 0, len(r.replicas))
	for _, replica := range r.replicas {
		if report := r.reports[replica]; report != nil {
			reports = append(reports, *report)
		} else {
			missing = append(missing, replica.Name)
		}
	}
	return reports, missing
}

// HasAsked reports whether each replica has answered, or failed to, since it was added.
func (r *Reader) HasAsked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.replicas, func(replica endpoints.Pod) bool {
		_, hasAsked := r.reports[replica]
		return !hasAsked
	})
}

// Updated returns a channel that is closed at the next report, or when one is lost. Obtain it before calling Demand.
func (r *Reader) Updated() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updated
}

// Changed returns a channel that is closed when the demand for an object may have changed. Obtain it before calling
// Demand.
func (r *Reader) Changed(key model.Key) <-chan struct{} {
	name := key.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	change, ok := r.changes[name]
	if !ok {
		change = make(chan struct{})
		r.changes[name] = change
	}
	return change
}

// Run reads reports until ctx ends. Afterwards all demand is unknown.
func (r *Reader) Run(ctx context.Context) {
	server.RunEach(ctx, func() []endpoints.Pod {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.replicas
	}, r.replicasChanged, r.follow)
}

// follow keeps the report of one replica up to date until ctx ends.
func (r *Reader) follow(ctx context.Context, replica endpoints.Pod) {
	retry, isLogged := retryFirst, false
	for ctx.Err() == nil {
		hasReport, err := r.read(ctx, replica)
		r.lose(replica)
		if ctx.Err() != nil {
			return
		}
		if hasReport {
			retry, isLogged = retryFirst, false
		}
		if !isLogged {
			r.logger.WarnContext(ctx, "no demand report from interceptor; demand of its proxies is unknown",
				slog.String("replica", replica.Name), slog.String("address", replica.Address), slog.Any("error", err))
		}
		isLogged = true
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
		retry = min(2*retry, retryLast)
	}
}

// lose records that a replica has no report.
func (r *Reader) lose(replica endpoints.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.replicas, replica) {
		r.reports[replica] = nil
	} else {
		delete(r.reports, replica)
	}
	r.notify(nil, true)
}

// apply records a report of a replica. It returns an error for changes without a whole report before.
func (r *Reader) apply(replica endpoints.Pod, report metrics.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var before metrics.Report
	last := r.reports[replica]
	if last != nil {
		before = *last
	} else if report.QueuedOnly || report.ChangesOnly {
		return fmt.Errorf("%w: changes without a report before", errResponse)
	}
	names, isAny := report.Diff(before)
	if slices.Contains(r.replicas, replica) {
		whole := report.ApplyTo(before)
		r.reports[replica] = &whole
	}
	r.notify(names, isAny || last == nil)
	return nil
}

// notify closes updated and the channels of the named objects, or of all objects if isAny is true. The caller holds the
// lock.
func (r *Reader) notify(names []string, isAny bool) {
	close(r.updated)
	r.updated = make(chan struct{})
	if isAny {
		for _, change := range r.changes {
			close(change)
		}
		clear(r.changes)
		clear(r.values)
		return
	}
	for _, name := range names {
		delete(r.values, name)
		if change, ok := r.changes[name]; ok {
			close(change)
			delete(r.changes, name)
		}
	}
}

// request returns the request for the reports of a replica.
func (r *Reader) request(ctx context.Context, replica endpoints.Pod) (*http.Request, error) {
	scheme := "http://"
	if r.security != nil {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+replica.Address+Path+query, http.NoBody)
	if err != nil || r.security == nil {
		return request, err
	}
	return request, r.security.authorize(request)
}

// read reads the reports of one connection until it ends. hasReport is true if it received at least one.
func (r *Reader) read(ctx context.Context, replica endpoints.Pod) (hasReport bool, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	alarm := time.AfterFunc(connectTimeout+silence, func() {
		stop(fmt.Errorf("%w: nothing for %v", errResponse, silence))
	})
	defer alarm.Stop()
	request, err := r.request(ctx, replica)
	if err != nil {
		return false, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return false, errors.Join(err, context.Cause(ctx))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%w: GET %s: status %s", errResponse, request.URL, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, bufferSize), maxReport)
	for lines.Scan() {
		var report metrics.Report
		err := json.Unmarshal(lines.Bytes(), &report)
		if err == nil {
			err = r.apply(replica, report)
		}
		if err != nil {
			return hasReport, fmt.Errorf("%w: GET %s: %w", errResponse, request.URL, err)
		}
		alarm.Reset(silence)
		hasReport = true
	}
	if cause := context.Cause(ctx); cause != nil {
		return hasReport, cause
	}
	if err := lines.Err(); err != nil {
		return hasReport, err
	}
	return hasReport, errEnded
}
