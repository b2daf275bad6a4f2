package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/websocket"

	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// userHeader is the header of the stickiness of web and socket.
const userHeader = "X-User"

// place is where requests go: an address, and the Host that they name.
type place struct {
	address, host string
	// user is the value of userHeader; empty for none.
	user string
	// color is the version that must answer slow requests and WebSockets; empty for any.
	color string
}

// canaryUser returns the same place for a user whose requests the canary answers. Users come to it by its weight.
func (p place) canaryUser(ctx context.Context) (place, error) {
	const attempts = 1000 // with a weight of 20 %, about 5 are needed
	p.color = "yellow"
	for number := range attempts {
		p.user = fmt.Sprintf("user-%d", number)
		connection, err := p.dial(ctx, 0)
		if err != nil {
			return place{}, err
		}
		got, err := exchange(connection, bufio.NewReader(connection), p.lines("GET /color HTTP/1.1", "Connection: close")...)
		if err := errors.Join(err, connection.Close()); err != nil {
			return place{}, err
		}
		if got.body == strconv.Quote(p.color) {
			return p, nil
		}
	}
	return place{}, fmt.Errorf("%s: the canary answered none of %d users", p.host, attempts)
}

// lines returns the lines of a request with its Host and user.
func (p place) lines(first string, others ...string) []string {
	lines := append([]string{first, "Host: " + p.host}, others...)
	if p.user != "" {
		lines = append(lines, userHeader+": "+p.user)
	}
	return lines
}

// dial opens a connection. Everything on it fails after await.Patience and the additional time.
func (p place) dial(ctx context.Context, additional time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, await.Patience())
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	if err := connection.SetDeadline(time.Now().Add(await.Patience() + additional)); err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return connection, nil
}

// answer is a response with status 200.
type answer struct {
	body string
	// isLast is true if the connection ends with the response.
	isLast bool
}

// errChunks means that a client of HTTP/1.0 received a body that it cannot read.
var errChunks = errors.New("the response has a Transfer-Encoding")

// exchange sends a request and reads the response with its body.
func exchange(connection net.Conn, reader *bufio.Reader, lines ...string) (answer, error) {
	if _, err := io.WriteString(connection, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return answer{}, err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return answer{}, fmt.Errorf("read the response: %w", err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return answer{}, fmt.Errorf("read the body: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("status %d: %.100q", response.StatusCode, body)
	}
	if strings.HasSuffix(lines[0], " HTTP/1.0") && len(response.TransferEncoding) > 0 {
		return answer{}, errChunks
	}
	return answer{string(body), response.Close}, nil
}

// exchangeTwice sends the same request for the colour twice over one connection, which must remain open.
func (p place) exchangeTwice(ctx context.Context, lines ...string) error {
	connection, err := p.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer connection.Close()
	reader := bufio.NewReader(connection)
	for number := range 2 {
		got, err := exchange(connection, reader, lines...)
		if err != nil {
			return fmt.Errorf("request %d: %w", number+1, err)
		}
		if !isColor(got.body) || got.isLast {
			return fmt.Errorf("request %d: body %.100q, the connection ends: %v", number+1, got.body, got.isLast)
		}
	}
	return nil
}

// isColor reports whether a body is that of the application.
func isColor(body string) bool { return body == `"blue"` || body == `"yellow"` }

// offerTLS sends two requests over one connection as Apache HttpClient does since version 5.4: each offers an upgrade
// to TLS (RFC 2817).
func (p place) offerTLS(ctx context.Context) error {
	return p.exchangeTwice(ctx, "GET /color HTTP/1.1", "Host: "+p.host, "Accept-Encoding: gzip, x-gzip, deflate",
		"Connection: Upgrade, keep-alive", "Upgrade: TLS/1.2", "User-Agent: Apache-HttpClient/5.4 (Java/21)")
}

// http10 sends one request over HTTP/1.0. The response must end with its connection.
func (p place) http10(ctx context.Context, path, want string) error {
	connection, err := p.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer connection.Close()
	reader := bufio.NewReader(connection)
	got, err := exchange(connection, reader, "GET "+path+" HTTP/1.0", "Host: "+p.host,
		"User-Agent: ApacheBench/2.3", "Accept: */*")
	if err != nil {
		return err
	}
	if canary := strings.ReplaceAll(want, "blue", "yellow"); got.body != want && got.body != canary {
		return fmt.Errorf("body %.100q", got.body)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the connection does not end with the response: %w", err)
	}
	return nil
}

// http10KeepAlive sends two requests over one connection, as `ab -k` does.
func (p place) http10KeepAlive(ctx context.Context) error {
	return p.exchangeTwice(ctx, "GET /color HTTP/1.0", "Host: "+p.host, "Connection: Keep-Alive",
		"User-Agent: ApacheBench/2.3", "Accept: */*")
}

// slowly requests a response whose first byte comes after first, with a number of lines of which each follows a second
// after the previous one. All lines must arrive.
func (p place) slowly(ctx context.Context, first time.Duration, lines int) error {
	connection, err := p.dial(ctx, first+time.Duration(lines)*time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()
	query := url.Values{"first": {first.String()}, "every": {"1s"}, "messages": {strconv.Itoa(lines)}}
	got, err := exchange(connection, bufio.NewReader(connection),
		p.lines("GET /slow?"+query.Encode()+" HTTP/1.1", "Connection: close")...)
	if err != nil {
		return err
	}
	return checkLines(got.body, lines, p.color)
}

// checkLines checks the body of a slow response, all of which one version must have sent if color is not empty.
func checkLines(body string, want int, color string) error {
	got := 0
	for line := range strings.Lines(body) {
		got++
		if !strings.HasPrefix(line, fmt.Sprintf("%d %s", got, color)) {
			return fmt.Errorf("line %d is %q", got, line)
		}
	}
	if got != want {
		return fmt.Errorf("%d of %d lines", got, want)
	}
	return nil
}

// webSocket opens a WebSocket, which fails after await.Patience and the additional time.
func (p place) webSocket(ctx context.Context, additional time.Duration) (*websocket.Conn, error) {
	connection, err := p.dial(ctx, additional)
	if err != nil {
		return nil, err
	}
	config, err := websocket.NewConfig("ws://"+p.host+"/echo", "http://"+p.host)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	if p.user != "" {
		config.Header.Set(userHeader, p.user)
	}
	socket, err := websocket.NewClient(config, connection)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the WebSocket: %w", err), connection.Close())
	}
	return socket, nil
}

// echo sends a message and reads the application's answer to it.
func (p place) echo(socket *websocket.Conn, message string) error {
	if err := websocket.Message.Send(socket, message); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	var answer string
	if err := websocket.Message.Receive(socket, &answer); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if !strings.HasSuffix(answer, " "+message) || !strings.HasPrefix(answer, p.color) {
		return fmt.Errorf("answer %.100q", answer)
	}
	return nil
}

// shortWebSocket opens a WebSocket, exchanges messages and closes it.
func (p place) shortWebSocket(ctx context.Context) error {
	socket, err := p.webSocket(ctx, 0)
	if err != nil {
		return err
	}
	defer socket.Close()
	return errors.Join(p.echo(socket, "one"), p.echo(socket, strings.Repeat("two", 1000)))
}

// talk opens a WebSocket and exchanges messages at an interval, for a duration.
func (p place) talk(ctx context.Context, every, duration time.Duration) error {
	socket, err := p.webSocket(ctx, duration)
	if err != nil {
		return err
	}
	defer socket.Close()
	return p.chat(ctx, socket, every, duration)
}

// chat exchanges messages over a WebSocket at an interval, for a duration.
func (p place) chat(ctx context.Context, socket *websocket.Conn, every, duration time.Duration) error {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	count := int(duration / every)
	for number := range count + 1 {
		if err := p.echo(socket, strconv.Itoa(number)); err != nil {
			return fmt.Errorf("message %d of %d: %w", number, count, err)
		}
		if number == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
	}
	return nil
}
