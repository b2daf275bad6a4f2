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
	"strings"
	"sync"
	"time"
)

// question says whom to ask, and how often.
type question struct {
	// protocol is tcp, tls or udp, address a host and port.
	protocol, address string
	// serverName is what a TLS client says it wants to talk to.
	serverName string
	// rate is the number of questions per second, each from a port of its own.
	rate float64
	// timeout bounds one answer.
	timeout time.Duration
}

// runAsk is the subcommand ask: an open-loop client for the ports of raw. It
// prints one line for each question, until ctx ends: its number, counted from 0,
// when it was due in milliseconds since 1970, after how many microseconds it had
// its answer, and the answer.
func runAsk(ctx context.Context, args []string, out io.Writer) error {
	var q question
	flags := flag.NewFlagSet("rollouts-demo ask", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&q.protocol, "protocol", "tcp", "tcp, tls or udp")
	flags.StringVar(&q.address, "address", "", "host and port to ask")
	flags.StringVar(&q.serverName, "server-name", "", "name that a TLS client asks for (SNI)")
	flags.Float64Var(&q.rate, "rate", 100, "questions per second")
	flags.DurationVar(&q.timeout, "timeout", 5*time.Second, "how long an answer may take")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("read the flags: %w", err)
	case q.protocol != "tcp" && q.protocol != "tls" && q.protocol != "udp":
		return fmt.Errorf("--protocol %q: want tcp, tls or udp", q.protocol)
	case q.address == "" || q.rate <= 0:
		return errors.New("--address is needed, and a --rate above 0")
	}
	return q.repeat(ctx, out)
}

// repeat asks at the rate, waiting for no answer before the next question. None
// is left out when this process is late.
func (q question) repeat(ctx context.Context, out io.Writer) error {
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
			// A question that was asked is answered even if the run is cut short.
			answer, err := q.ask(context.WithoutCancel(ctx))
			if err != nil {
				answer = "error: " + err.Error()
			}
			took := time.Since(due)
			printing.Lock()
			defer printing.Unlock()
			fmt.Fprintln(out, number, due.UnixMilli(), took.Microseconds(), answer)
		})
	}
}

// ask asks once, over a connection of its own.
func (q question) ask(ctx context.Context) (string, error) {
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

func (q question) dial(ctx context.Context) (net.Conn, error) {
	switch q.protocol {
	case "tls":
		// The answering side's certificate is signed by nobody (selfSigned).
		config := &tls.Config{ServerName: q.serverName, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13} //nolint:gosec // see above
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", q.address)
	default:
		return (&net.Dialer{}).DialContext(ctx, q.protocol, q.address)
	}
}
