package machine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// dialTimeout bounds one attempt to connect to ssh.
	dialTimeout = 30 * time.Second
	// pollInterval is the interval between checks of a condition.
	pollInterval = time.Second
)

// Login contains the user, the user's key, and the machine's expected key.
type Login struct {
	User string
	Key  ssh.Signer
	Host ssh.PublicKey
}

// Session is one login. It stays open, because a new login would change the machine between two snapshots.
type Session struct {
	client *ssh.Client
}

// Await logs in as soon as the machine answers. The context contains the deadline.
func (m *Machine) Await(ctx context.Context, login Login) (*Session, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if err := m.check(ctx); err != nil {
			return nil, err
		}
		session, err := m.dial(ctx, login)
		if err == nil {
			return session, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the machine does not answer: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func (m *Machine) dial(ctx context.Context, login Login) (*Session, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port))
	dialer := net.Dialer{Timeout: dialTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reach ssh: %w", err)
	}
	// QEMU accepts connections long before the guest does, so the answer has a deadline, too.
	giveUp := time.AfterFunc(dialTimeout, func() { _ = connection.Close() })
	defer giveUp.Stop()
	client, channels, requests, err := ssh.NewClientConn(connection, address, &ssh.ClientConfig{
		User: login.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(login.Key)},
		HostKeyCallback:   ssh.FixedHostKey(login.Host),
		HostKeyAlgorithms: []string{login.Host.Type()},
	})
	if err != nil {
		_ = connection.Close()
		return nil, fmt.Errorf("log in as %s: %w", login.User, err)
	}
	return &Session{client: ssh.NewClient(client, channels, requests)}, nil
}

// Close logs out.
func (s *Session) Close() error { return s.client.Close() }

// Run runs a command without a terminal and returns its output. Input may be nil.
func (s *Session) Run(ctx context.Context, command string, input io.Reader) (string, error) {
	session, err := s.client.NewSession()
	if err != nil {
		return "", fmt.Errorf("open an ssh channel: %w", err)
	}
	defer session.Close()
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer stop()
	var out, problem bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = input, &out, &problem
	if err := session.Run(command); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return out.String(), fmt.Errorf("run %.60q in the guest: %w\n%s", command, err, problem.String())
	}
	return out.String(), nil
}
