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

// Config configures a Client.
type Config struct {
	// Address is the TCP address to connect to.
	Address string
	// Dial connects to Address, like net.Dialer.DialContext, which is the default. A test can thereby reach the network of
	// another namespace.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Host is the Host header, Path the path of every request.
	Host, Path string
	// Header contains additional headers of every request, by name.
	Header map[string]string
	// Rate is the number of requests per second.
	Rate float64
	// Timeout is the time limit of each request, counted from when it is due.
	Timeout time.Duration
	// MaxInFlight is the maximum number of concurrent requests.
	MaxInFlight int
	// Closed makes the loop a closed one: a request that exceeds MaxInFlight is not refused. It waits for another request
	// to end and is due then. Rate is the maximum rate.
	Closed bool
	// Colors are the valid response bodies; empty means any color.
	Colors []string
}

// target returns the address and headers of the requests.
func (c Config) target() target {
	t := target{address: c.Address, host: c.Host, path: c.Path, header: c.Header, connect: c.Dial}
	if t.connect == nil {
		t.connect = new(net.Dialer).DialContext
	}
	return t
}

// Pinned is the result of a pinned connection.
type Pinned struct {
	Kind Kind
	// Answered is the number of successful responses.
	Answered int
	// Lost is why the connection was closed; nil if it is still open.
	Lost error
}

// sender sends the requests of one kind.
type sender interface {
	// ask sends one request once, and returns by the deadline of ctx.
	ask(ctx context.Context) (answer, error)
	// close closes the remaining connections.
	close()
}

// pinnedSender is a sender with a pinned connection.
type pinnedSender interface {
	sender
	lost() error
}

// Client is a running load generator.
type Client struct {
	config   Config
	plan     Plan
	known    map[string]bool
	start    time.Time
	recorder *recorder
	senders  map[Kind]sender
	slots    chan struct{}

	stop    context.CancelFunc
	ended   chan struct{} // closed when no further request will start
	flights sync.WaitGroup
	closing sync.Once
	pinned  []Pinned // set by Stop
}

// Start opens the pinned connections and starts to send. The client runs until Stop is called or ctx ends. Requests in
// flight are completed in either case.
func Start(ctx context.Context, config Config) (*Client, error) {
	c, err := connect(ctx, config)
	if err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(ctx)
	go c.startRequests(ctx)
	return c, nil
}

// connect opens the pinned connections of a client and sends nothing.
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
		recorder: newRecorder(config.Timeout), senders: lanes,
		slots: make(chan struct{}, config.MaxInFlight), stop: func() {}, ended: make(chan struct{}),
	}, nil
}

// idleHTTP1 is the maximum number of idle kept HTTP/1.1 connections.
const idleHTTP1 = 16

// open creates one sender of each kind.
func open(ctx context.Context, t target, timeout time.Duration) (map[Kind]sender, error) {
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
	return map[Kind]sender{
		FreshHTTP1:  freshHTTP1{target: t},
		FreshHTTP2:  freshHTTP2{target: t},
		KeptHTTP1:   keptHTTP1{target: t, idle: make(chan *http1Conn, idleHTTP1)},
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
		// ctx may be canceled late; a burst has to end on time.
		if end, bounded := ctx.Deadline(); bounded && !due.Before(end) {
			<-c.slots
			return
		}
		c.recorder.open(c.plan.Kind(i), due)
		c.send(ctx, i, due)
	}
}

// begin starts request i without waiting for it.
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

// refuse fails request i with ErrOverload.
func (c *Client) refuse(i int, due time.Time) {
	c.recorder.close(i, Result{Kind: c.plan.Kind(i), Due: due, Lag: time.Since(due), Err: ErrOverload}, refused)
}

// send sends request i, which has a slot, without waiting for the response.
func (c *Client) send(ctx context.Context, i int, due time.Time) {
	c.flights.Go(func() {
		defer func() { <-c.slots }()
		result := c.sendRequest(ctx, c.plan.Kind(i), due)
		outcome := sent
		if errors.Is(result.Err, ErrPinnedLost) {
			outcome = lost
		}
		c.recorder.close(i, result, outcome)
	})
}

// sendRequest sends one request and classifies its response.
func (c *Client) sendRequest(ctx context.Context, kind Kind, due time.Time) Result {
	// A started request is completed even if the run is canceled.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), due.Add(c.config.Timeout))
	defer cancel()
	result := Result{Kind: kind, Due: due, Lag: time.Since(due)}
	a, err := c.senders[kind].ask(ctx)
	result.Latency = time.Since(due)
	result.Status, result.Opened = a.status, a.opened
	if err != nil {
		result.Err = err
		return result
	}
	result.Color, result.Err = classify(a, c.known)
	return result
}

// Next returns the number of the first request that is due at t or later.
func (c *Client) Next(t time.Time) int { return c.plan.First(t.Sub(c.start)) }

// Begun returns the number of requests that have started, which is the number of the next request.
func (c *Client) Begun() int { return c.recorder.next() }

// Window returns the results so far of n requests from number first.
func (c *Client) Window(first, n int) Window { return c.recorder.window(first, n) }

// Sample waits until n requests that are due after a moment have ended, and returns them.
func (c *Client) Sample(ctx context.Context, from time.Time, n int) (Window, error) {
	first := c.Next(from)
	// The timeout applies to the last request from when it is due. The client gets the same time again to record the end.
	within := max(0, time.Until(from)) + c.plan.At(n) + 2*c.config.Timeout
	var window Window
	err := await.Within(ctx, fmt.Sprintf("the end of %d requests", n), within, func() bool {
		window = c.Window(first, n)
		return window.Complete()
	}, func() string { return fmt.Sprintf("%d have ended", window.Done) })
	return window, err
}

// Ended returns those of n requests from number first that have ended, in the order of the plan.
func (c *Client) Ended(first, n int) []Result { return c.recorder.ended(first, n) }

// Recent returns the requests that were due in the last d.
func (c *Client) Recent(d time.Duration) Window {
	n := c.plan.First(d)
	return c.recorder.window(c.recorder.next()-n, n)
}

// Results returns every request that has ended so far, in the order of the plan.
func (c *Client) Results() []Result { return c.recorder.ended(0, c.recorder.next()) }

// Totals returns the counts of all requests so far.
func (c *Client) Totals() Totals { return c.recorder.snapshot() }

// Stop starts no further request, waits until the requests in flight have ended, and closes every connection. The
// request timeout limits the wait. The returned totals are final. A second call returns the same.
func (c *Client) Stop() (Totals, []Pinned) {
	c.closing.Do(func() {
		c.stop()
		<-c.ended
		c.flights.Wait()
		totals := c.recorder.snapshot()
		for _, kind := range []Kind{PinnedHTTP1, PinnedHTTP2} {
			pinned := Pinned{Kind: kind, Answered: totals.Answered[kind]}
			if lane, ok := c.senders[kind].(pinnedSender); ok {
				pinned.Lost = lane.lost()
			}
			c.pinned = append(c.pinned, pinned)
		}
		for _, lane := range c.senders {
			lane.close()
		}
	})
	return c.recorder.snapshot(), c.pinned
}

// Probe sends one request on a new connection and returns the color.
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
