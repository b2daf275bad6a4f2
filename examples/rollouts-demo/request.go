package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// target contains the destination, and the rate of requests.
type target struct {
	// protocol is tcp, tls, udp or http. address is a host and port.
	protocol, address string
	// serverName is the server name that a TLS client sends.
	serverName string
	// host and path are the target of an HTTP request. client sends it over persistent connections.
	host, path string
	client     *http.Client
	// rate is the number of requests per second, each from a port of its own.
	rate float64
	// timeout bounds one answer.
	timeout time.Duration
}

// runRequest is the subcommand request: an open-loop client for the ports of raw, and for the colour by HTTP. It prints
// one line per request until ctx ends: its number, counted from 0, its due time in milliseconds since 1970, the latency
// of its answer in microseconds, and the answer.
func runRequest(ctx context.Context, args []string, out io.Writer) error {
	q, err := parseTarget(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	q.client = &http.Client{Timeout: q.timeout, Transport: &http.Transport{MaxIdleConnsPerHost: mostIdle}}
	return q.repeat(ctx, out)
}

// parseTarget parses the flags of the subcommand.
func parseTarget(args []string, out io.Writer) (target, error) {
	var q target
	flags := flag.NewFlagSet("rollouts-demo request", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&q.protocol, "protocol", "tcp", "tcp, tls, udp or http")
	flags.StringVar(&q.address, "address", "", "host and port to send requests to")
	flags.StringVar(&q.serverName, "server-name", "", "server name of TLS clients (SNI)")
	flags.StringVar(&q.host, "host", "", "host of HTTP requests (default: the host of the address)")
	flags.StringVar(&q.path, "path", "/color", "path of HTTP requests")
	flags.Float64Var(&q.rate, "rate", 100, "requests per second")
	flags.DurationVar(&q.timeout, "timeout", 5*time.Second, "timeout of an answer")
	err := flags.Parse(args)
	switch {
	case err != nil:
		return target{}, fmt.Errorf("parse the flags: %w", err)
	case flags.NArg() > 0:
		return target{}, fmt.Errorf("argument %q: there are only flags", flags.Arg(0))
	case q.protocol != "tcp" && q.protocol != "tls" && q.protocol != "udp" && q.protocol != "http":
		return target{}, fmt.Errorf("--protocol %q: want tcp, tls, udp or http", q.protocol)
	case q.address == "" || q.rate <= 0:
		return target{}, errors.New("--address and a positive --rate are required")
	}
	return q, nil
}

// repeat sends requests at the rate, without waiting for answers. If this process is late, it sends all of them
// nevertheless.
func (q target) repeat(ctx context.Context, out io.Writer) error {
	var printing sync.Mutex
	var answers sync.WaitGroup
	defer answers.Wait()
	began := time.Now()
	for number := 0; ; number++ {
		due := began.Add(time.Duration(float64(number) / q.rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(due)):
		}
		answers.Go(func() {
			// A request in flight is answered even if the run is canceled.
			answer, err := q.request(context.WithoutCancel(ctx))
			if err != nil {
				answer = "error: " + err.Error()
			}
			latency := time.Since(due)
			printing.Lock()
			defer printing.Unlock()
			fmt.Fprintln(out, number, due.UnixMilli(), latency.Microseconds(), answer)
		})
	}
}

// mostIdle is the number of persistent HTTP connections: the number of concurrent requests when answers are slow.
const mostIdle = 100

// requestHTTP requests the colour once. Any other answer is an error.
func (q target) requestHTTP(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+q.address+q.path, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Host = q.host
	response, err := q.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	const longest = 200
	body, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return "", err
	}
	text := strings.Join(strings.Fields(string(body)), " ")
	color, err := strconv.Unquote(text)
	if response.StatusCode != http.StatusOK || err != nil {
		return "", fmt.Errorf("%s: %s", response.Status, text)
	}
	return color, nil
}

// request sends one request, over a connection of its own except by HTTP.
func (q target) request(ctx context.Context) (string, error) {
	if q.protocol == "http" {
		return q.requestHTTP(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	connection, err := q.dial(ctx)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	deadline, _ := ctx.Deadline()
	if err := connection.SetDeadline(deadline); err != nil {
		return "", err
	}
	if q.protocol == "udp" {
		if _, err := connection.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (q target) dial(ctx context.Context) (net.Conn, error) {
	switch q.protocol {
	case "tls":
		// The server's certificate is self-signed (selfSigned).
		config := &tls.Config{ServerName: q.serverName, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} //nolint:gosec // see above
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", q.address)
	default:
		return (&net.Dialer{}).DialContext(ctx, q.protocol, q.address)
	}
}
