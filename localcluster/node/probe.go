package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
)

const (
	// probeInterval is the interval between two probes of a component.
	probeInterval = 100 * time.Millisecond
	// probeTimeout bounds one probe.
	probeTimeout = 2 * time.Second
)

// waitFor repeats the probe until it succeeds. When the context ends, it returns the last error.
func waitFor(ctx context.Context, probe cluster.Probe) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := ask(ctx, probe)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func ask(ctx context.Context, probe cluster.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if probe.Socket != "" {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", probe.Socket)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, probe.URL, http.NoBody)
	if err != nil {
		return fmt.Errorf("probe %s: %w", probe, err)
	}
	// The health endpoints return no secret and their certificates are created at each start: the probe checks whether
	// the process answers, not its identity.
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 512))
		return fmt.Errorf("%s answered %s: %s", probe, response.Status, body)
	}
	return nil
}
