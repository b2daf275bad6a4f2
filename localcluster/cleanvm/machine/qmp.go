package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// errMonitor is wrapped by the errors of QEMU's monitor.
var errMonitor = errors.New("QEMU's monitor returned an error")

// monitor is a client of QMP, the protocol that controls QEMU (https://www.qemu.org/docs/master/interop/qmp-spec.html).
type monitor struct {
	in io.Writer
	// replies are the answers to commands, in order. It is closed when QEMU ends.
	replies chan reply

	mu sync.Mutex
}

// reply is one message from QEMU. Events and the greeting have neither field.
type reply struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
}

func newMonitor(in io.Writer, out io.Reader) *monitor {
	m := &monitor{in: in, replies: make(chan reply, 8)}
	go m.read(out)
	return m
}

func (m *monitor) read(out io.Reader) {
	defer close(m.replies)
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var r reply
		if json.Unmarshal(scanner.Bytes(), &r) == nil && (r.Return != nil || r.Error != nil) {
			m.replies <- r
		}
	}
}

// execute executes one command. The result may be nil.
func (m *monitor) execute(ctx context.Context, command string, arguments map[string]any, result any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return fmt.Errorf("encode %s: %w", command, err)
	}
	if _, err := m.in.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("send %s to QEMU: %w", command, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for QEMU's answer to %s: %w", command, ctx.Err())
	case r, open := <-m.replies:
		switch {
		case !open:
			return fmt.Errorf("wait for QEMU's answer to %s: %w", command, io.ErrUnexpectedEOF)
		case r.Error != nil:
			return fmt.Errorf("%w %s: %s", errMonitor, command, r.Error.Desc)
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(r.Return, result); err != nil {
			return fmt.Errorf("read QEMU's answer to %s: %w", command, err)
		}
		return nil
	}
}

// status returns the state of the virtual processors, such as "running".
func (m *monitor) status(ctx context.Context) (string, error) {
	var answer struct {
		Status string `json:"status"`
	}
	err := m.execute(ctx, "query-status", map[string]any{}, &answer)
	return answer.Status, err
}

// human executes a command of the human monitor and returns its text.
func (m *monitor) human(ctx context.Context, line string) (string, error) {
	var answer string
	err := m.execute(ctx, "human-monitor-command", map[string]any{"command-line": line}, &answer)
	return answer, err
}
