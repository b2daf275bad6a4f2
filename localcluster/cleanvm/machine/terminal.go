package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// errClosed is the error of a wait on a terminal that is closed.
var errClosed = errors.New("the terminal in the guest is closed")

// The shell reports the end of each command, with its exit code, by a control sequence (an operating system command)
// that terminals do not display.
const reporting = ` PROMPT_COMMAND='printf "\033]9;cleanvm %s\007" $?'` + "\n"

const (
	// interrupt is the character of Ctrl-C.
	interrupt = 3
	// interruptTimeout bounds the cleanup of an interrupted command.
	interruptTimeout = 5 * time.Minute
)

// patterns are the texts to wait for on a terminal.
const (
	endPattern    = "\x1b\\]9;cleanvm (\\d+)\x07"
	promptPattern = `\[sudo\] password for \w+: ?`
)

// Terminal is a shell on a terminal in the guest, which receives one command after another. When sudo prompts for the
// password, Terminal enters it.
type Terminal struct {
	password string
	in       io.Writer
	out      io.Writer
	session  *ssh.Session
	codes    chan int

	mu      sync.Mutex
	pending []byte // the end of the output that has not matched yet
	prompts int
}

// TerminalSettings describes a terminal to the programs on it.
type TerminalSettings struct {
	// Term is the value of TERM.
	Term string
	// Columns and Rows are its size.
	Columns, Rows int
}

// Terminal opens a terminal with a login shell. All output goes to out.
func (s *Session) Terminal(
	ctx context.Context, look TerminalSettings, password string, out io.Writer,
) (*Terminal, error) {
	session, err := s.client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("open an ssh channel: %w", err)
	}
	if err := session.RequestPty(look.Term, look.Rows, look.Columns, ssh.TerminalModes{}); err != nil {
		return nil, errors.Join(fmt.Errorf("request a terminal: %w", err), session.Close())
	}
	t := &Terminal{password: password, out: out, session: session, codes: make(chan int, 1)}
	if t.in, err = session.StdinPipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("open a terminal: %w", err), session.Close())
	}
	session.Stdout, session.Stderr = t, t
	if err := session.Shell(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a shell: %w", err), session.Close())
	}
	go func() {
		_ = session.Wait() // the waiting command receives the error
		close(t.codes)
	}()
	if _, err := t.Type(ctx, reporting); err != nil {
		return nil, errors.Join(err, session.Close())
	}
	return t, nil
}

// Type enters a line and returns the exit code of the command. When the context ends, it interrupts the command with
// Ctrl-C and waits for its end.
func (t *Terminal) Type(ctx context.Context, line string) (int, error) {
	if _, err := io.WriteString(t.in, line); err != nil {
		return 0, fmt.Errorf("type in the guest: %w", err)
	}
	select {
	case code, open := <-t.codes:
		if !open {
			return 0, errClosed
		}
		return code, nil
	case <-ctx.Done():
	}
	err := fmt.Errorf("interrupted: %w", ctx.Err())
	if _, writeErr := t.in.Write([]byte{interrupt}); writeErr != nil {
		return 0, errors.Join(err, writeErr)
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return 0, err
	}
	select {
	case <-t.codes:
	case <-time.After(interruptTimeout):
	}
	return 0, err
}

// Run enters a command and returns its exit code.
func (t *Terminal) Run(ctx context.Context, command string) (int, error) {
	return t.Type(ctx, command+"\n")
}

// PasswordPrompts returns the number of sudo's password prompts since the last call.
func (t *Terminal) PasswordPrompts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := t.prompts
	t.prompts = 0
	return count
}

// Close hangs up, as closing a window does.
func (t *Terminal) Close() error { return t.session.Close() }

// Write receives the guest's output.
func (t *Terminal) Write(raw []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = append(t.pending, raw...)
	for t.find() {
	}
	if len(t.pending) > 256 {
		t.pending = t.pending[len(t.pending)-256:]
	}
	return t.out.Write(raw)
}

// find handles the next match and drops the text before it.
func (t *Terminal) find() bool {
	end := regexp.MustCompile(endPattern).FindSubmatchIndex(t.pending)
	prompt := regexp.MustCompile(promptPattern).FindIndex(t.pending)
	switch {
	case prompt != nil && (end == nil || prompt[0] < end[0]):
		t.prompts++
		t.pending = t.pending[prompt[1]:]
		_, _ = io.WriteString(t.in, t.password+"\n")
	case end != nil:
		code, _ := strconv.Atoi(string(t.pending[end[2]:end[3]]))
		t.pending = t.pending[end[1]:]
		t.codes <- code
	default:
		return false
	}
	return true
}
