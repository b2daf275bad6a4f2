package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// Config says what to send where.
type Config struct {
	// Address is the TCP address to connect to.
	Address string
	// Dial connects to it, as net.Dialer.DialContext does; nil is that itself. A
	// test reaches networks by it that are not this process's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Host is the Host header, Path the path of every request.
	Host, Path string
	// Header are further headers of every request, by name.
	Header map[string]string
	// Rate is the number of requests per second.
	Rate float64
	// Timeout bounds each request, counted from when it was due.
	Timeout time.Duration
	// MaxInFlight bounds the requests that are under way at once.
	MaxInFlight int
	// Closed makes the loop a closed one: a request that finds MaxInFlight others
	// under way isn't refused, it waits for one of them to end and is due then. The
	// rate is the most that there can be.
	Closed bool
	// Colors are the answers that count as good; any colour does where there are none.
	Colors []string
}

// target is where requests go.
func (c Config) target() target {
	t := target{address: c.Address, host: c.Host, path: c.Path, header: c.Header, connect: c.Dial}
	if t.connect == nil {
		t.connect = new(net.Dialer).DialContext
	}
	return t
}

// Pinned is the fate of a pinned connection.
type Pinned struct {
	Kind Kind
	// Answered counts its good answers.
	Answered int
	// Lost says why it is gone, nil if it lives.
	Lost error
}

// lane carries the requests of one kind.
type lane interface {
	// ask sends one request, once, and returns by the deadline of ctx.
	ask(ctx context.Context) (answer, error)
	// close ends the connections that are left.
	close()
}

// pinnedLane is a lane that can be lost.
type pinnedLane interface {
	lane
	lost() error
}

// Client is a running client.
type Client struct {
	config   Config
	plan     Plan
	known    map[string]bool
	start    time.Time
	recorder *recorder
	lanes    map[Kind]lane
	slots    chan struct{}

	stop    context.CancelFunc
	ended   chan struct{} // closed when no further request will start
	flights sync.WaitGroup
	closing sync.Once
	pinned  []Pinned // set by Stop
}

// Start opens the pinned connections and begins to send. The client runs until
// Stop is called or ctx ends; requests under way are answered in either case.
func Start(ctx context.Context, config Config) (*Client, error) {
	c, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(ctx)
	go c.startRequests(ctx)
	return c, nil
}

// connect opens the pinned connections of a client that sends nothing yet.
func connect(ctx context.Context, config Config) (*Client, error) {
	known := make(map[string]bool, len(config.Colors))
	for _, color := range config.Colors {
		known[color] = true
	}
	lanes, err := open(ctx, config.target(), config.Timeout)
	if err != nil {
		return nil, err
	}
	return &Client{
		config: config, plan: Plan{Rate: config.Rate}, known: known, start: time.Now(),
		recorder: newRecorder(config.Timeout), lanes: lanes,
		slots: make(chan struct{}, config.MaxInFlight), stop: func() {}, ended: make(chan struct{}),
	}, nil
}

// restingHTTP1 bounds the kept HTTP/1.1 connections that rest at a time.
const restingHTTP1 = 16

// open makes one lane of each kind.
func open(ctx context.Context, t target, timeout time.Duration) (map[Kind]lane, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	first, err := dialHTTP1(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("open the pinned HTTP/1.1 connection: %w", err)
	}
	second, err := dialHTTP2(ctx, t)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the pinned HTTP/2 connection: %w", err), first.Close())
	}
	return map[Kind]lane{
		FreshHTTP1:  freshHTTP1{target: t},
		FreshHTTP2:  freshHTTP2{target: t},
		KeptHTTP1:   keptHTTP1{target: t, idle: make(chan *http1Conn, restingHTTP1)},
		KeptHTTP2:   &keptHTTP2{target: t},
		PinnedHTTP1: newPinnedHTTP1(t, first),
		PinnedHTTP2: &pinnedHTTP2{target: t, conn: second},
	}, nil
}

// startRequests starts every request when it is due, until ctx ends.
func (c *Client) startRequests(ctx context.Context) {
	defer close(c.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		due := c.start.Add(c.plan.At(i))
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		}
		if !c.config.Closed {
			c.begin(ctx, i, due)
			continue
		}
		c.slots <- struct{}{} // a request's timeout bounds the wait
		due = time.Now()
		// The end of ctx may be told late; a burst has to end on time.
		if end, bounded := ctx.Deadline(); bounded && !due.Before(end) {
			<-c.slots
			return
		}
		c.recorder.open(c.plan.Kind(i), due)
		c.send(ctx, i, due)
	}
}

// begin starts request i and doesn't wait for it.
func (c *Client) begin(ctx context.Context, i int, due time.Time) {
	c.recorder.open(c.plan.Kind(i), due)
	if time.Since(due) >= c.config.Timeout {
		c.refuse(i, due)
		return
	}
	select {
	case c.slots <- struct{}{}:
		c.send(ctx, i, due)
	default:
		c.refuse(i, due)
	}
}

// refuse ends request i, which this client is too busy for.
func (c *Client) refuse(i int, due time.Time) {
	c.recorder.close(i, Result{Kind: c.plan.Kind(i), Due: due, Lag: time.Since(due), Err: ErrOverload}, refused)
}

// send sends request i, which has a slot, and doesn't wait for its answer.
func (c *Client) send(ctx context.Context, i int, due time.Time) {
	c.flights.Go(func() {
		defer func() { <-c.slots }()
		result := c.ask(ctx, c.plan.Kind(i), due)
		outcome := sent
		if errors.Is(result.Err, ErrPinnedLost) {
			outcome = lost
		}
		c.recorder.close(i, result, outcome)
	})
}

// ask sends one request and judges its answer.
func (c *Client) ask(ctx context.Context, kind Kind, due time.Time) Result {
	// A request that has started is answered even if the run is cut short.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), due.Add(c.config.Timeout))
	defer cancel()
	result := Result{Kind: kind, Due: due, Lag: time.Since(due)}
	a, err := c.lanes[kind].ask(ctx)
	result.Latency = time.Since(due)
	result.Status, result.Opened = a.status, a.opened
	if err != nil {
		result.Err = err
		return result
	}
	result.Color, result.Err = classify(a, c.known)
	return result
}

// Next is the number of the first request that is due at t or later.
func (c *Client) Next(t time.Time) int { return c.plan.First(t.Sub(c.start)) }

// Begun is how many requests have begun, and so the number of the next one.
func (c *Client) Begun() int { return c.recorder.next() }

// Window looks at n requests from number first on, as far as they have ended.
func (c *Client) Window(first, n int) Window { return c.recorder.window(first, n) }

// Sample waits until n requests that are due from a moment on have ended, and
// returns them.
func (c *Client) Sample(ctx context.Context, from time.Time, n int) (Window, error) {
	first := c.Next(from)
	// The timeout bounds the last request, counted from when it is due; as much
	// again is for this client to take note of its end.
	within := max(0, time.Until(from)) + c.plan.At(n) + 2*c.config.Timeout
	var window Window
	err := await.Within(ctx, fmt.Sprintf("the end of %d requests", n), within, func() bool {
		window = c.Window(first, n)
		return window.Complete()
	}, func() string { return fmt.Sprintf("%d have ended", window.Done) })
	return window, err
}

// Ended returns those of n requests from number first on that have ended, in the
// order of the plan.
func (c *Client) Ended(first, n int) []Result { return c.recorder.ended(first, n) }

// Recent looks at the requests that were due in the last d.
func (c *Client) Recent(d time.Duration) Window {
	n := c.plan.First(d)
	return c.recorder.window(c.recorder.next()-n, n)
}

// Results returns every request that has ended so far, in the order of the plan.
func (c *Client) Results() []Result { return c.recorder.ended(0, c.recorder.next()) }

// Totals counts all requests so far.
func (c *Client) Totals() Totals { return c.recorder.snapshot() }

// Stop starts no further request, waits until those under way have ended,
// which the timeout bounds, and closes every connection. The totals are final
// then. A second call returns the same.
func (c *Client) Stop() (Totals, []Pinned) {
	c.closing.Do(func() {
		c.stop()
		<-c.ended
		c.flights.Wait()
		totals := c.recorder.snapshot()
		for _, kind := range []Kind{PinnedHTTP1, PinnedHTTP2} {
			pinned := Pinned{Kind: kind, Answered: totals.Answered[kind]}
			if lane, ok := c.lanes[kind].(pinnedLane); ok {
				pinned.Lost = lane.lost()
			}
			c.pinned = append(c.pinned, pinned)
		}
		for _, lane := range c.lanes {
			lane.close()
		}
	})
	return c.recorder.snapshot(), c.pinned
}

// Probe asks once, on a connection of its own, and returns the colour.
func Probe(ctx context.Context, config Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	a, err := freshHTTP1{target: config.target()}.ask(ctx)
	if err != nil {
		return "", err
	}
	known := make(map[string]bool, len(config.Colors))
	for _, color := range config.Colors {
		known[color] = true
	}
	return classify(a, known)
}
