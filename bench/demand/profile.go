package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// scalerProfiles is the address of the scaler's profiles, adminPort the port of the interceptor's.
const (
	scalerProfiles = "127.0.0.1:12223"
	adminPort      = 9090
)

// profile takes profiles of both programs during a measurement, if requested: <program>-<name>.cpu for processor time,
// and <program>-<name>.heap for live memory. It starts immediately. The returned function waits for the end.
func (s *environment) profile(ctx context.Context, name string) (wait func() error) {
	group, inGroup := errgroup.WithContext(ctx)
	if s.options.profiles == "" {
		return group.Wait
	}
	for program, address := range map[string]string{
		"interceptor": netip.AddrPortFrom(s.replica.Address, adminPort).String(), "scaler": scalerProfiles,
	} {
		group.Go(func() error {
			at := "http://" + address + "/debug/pprof/"
			client := &http.Client{Timeout: s.options.watched + patience}
			file := filepath.Join(s.options.profiles, program+"-"+name)
			if err := save(inGroup, client, fmt.Sprintf("%sprofile?seconds=%d", at, int(s.options.watched.Seconds())),
				file+".cpu"); err != nil {
				return err
			}
			return save(inGroup, client, at+"heap", file+".heap")
		})
	}
	return group.Wait
}

// save writes the response of a URL into a file.
func save(ctx context.Context, client *http.Client, from, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	profile, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: %s: %s", errAnswer, from, response.Status)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, profile, 0o600)
}
