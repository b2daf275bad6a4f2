package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// statusVariable is the environment variable with the command that prints the status of the embedded cluster.
const statusVariable = "CLUSTER_STATUS"

// metricsPort is the port of the components' metrics.
const metricsPort = "2223"

// record scrapes the components of the embedded cluster until a command ends, and for a rateInterval longer. Then it
// writes the samples to a file. It fails if the command fails.
func record(ctx context.Context, file string, command []string) error {
	running := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the user's command
	running.Stdout, running.Stderr = os.Stdout, os.Stderr
	if err := running.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Wait() }()
	var samples scrapes
	var source target
	defer source.close()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for remaining := int(rateInterval / interval); remaining > 0; {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
			}
			ended = nil
		case <-ticker.C:
			read, err := source.scrape(ctx)
			if err != nil {
				source.close() // the cluster starts or stops
			}
			samples.add(read)
			if ended == nil {
				remaining--
			}
		}
	}
	return samples.write(file)
}

// target is the API server of the embedded cluster, behind kubectl proxy. The zero value connects at the first scrape.
type target struct {
	proxy   *exec.Cmd
	address string
}

// close ends kubectl proxy.
func (t *target) close() {
	if t.proxy != nil {
		_ = t.proxy.Process.Kill()
		_ = t.proxy.Wait()
	}
	*t = target{}
}

// connect starts kubectl proxy, if the cluster runs.
func (t *target) connect(ctx context.Context) error {
	if t.proxy != nil {
		return nil
	}
	text, err := exec.CommandContext(ctx, "sh", "-c", os.Getenv(statusVariable)).Output() //nolint:gosec // the Makefile's
	if err != nil {
		return fmt.Errorf("$%s: %w", statusVariable, err)
	}
	var status struct{ State, Kubeconfig, Bin string }
	if err := json.Unmarshal(text, &status); err != nil {
		return err
	}
	if status.Kubeconfig == "" {
		return fmt.Errorf("the cluster is %s", status.State)
	}
	kubectl := filepath.Join(status.Bin, "kubectl")
	//nolint:gosec // the cluster's own program
	proxy := exec.CommandContext(ctx, kubectl, "--kubeconfig", status.Kubeconfig, "proxy", "--port=0")
	out, err := proxy.StdoutPipe()
	if err == nil {
		err = proxy.Start()
	}
	if err != nil {
		return err
	}
	t.proxy = proxy
	line, err := bufio.NewReader(out).ReadString('\n') // Starting to serve on 127.0.0.1:38771
	t.address = strings.TrimSpace(line[strings.LastIndex(line, " ")+1:])
	return err
}

// scrape returns the samples of all components, by name and labels including the Pod.
func (t *target) scrape(ctx context.Context) (map[string]float64, error) {
	if err := t.connect(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	const pods = "/api/v1/namespaces/keda/pods"
	text, err := t.get(ctx, pods+"?labelSelector="+url.QueryEscape("app.kubernetes.io/part-of=kedify-http"))
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Phase string }
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	samples := map[string]float64{}
	for _, pod := range list.Items {
		if pod.Status.Phase != "Running" {
			continue
		}
		name := pod.Metadata.Name
		text, err := t.get(ctx, pods+"/"+name+":"+metricsPort+"/proxy/metrics")
		if err != nil {
			continue // a Pod that starts or stops
		}
		maps.Copy(samples, parseMetrics(string(text), name))
	}
	return samples, nil
}

// get returns the body of a response of the API server.
func (t *target) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", path, response.Status))
	}
	return body, errors.Join(err, response.Body.Close())
}

// parseMetrics returns the samples of this project's metrics in Prometheus' text format, with the label pod.
func parseMetrics(text, pod string) map[string]float64 {
	samples := map[string]float64{}
	for line := range strings.Lines(text) {
		i := strings.LastIndex(line, " ")
		if i < 0 || !strings.HasPrefix(line, "kedify_") {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
		if err != nil {
			continue
		}
		name, labels, hasLabels := strings.Cut(line[:i], "{")
		labels = strings.TrimSuffix(labels, "}")
		if hasLabels {
			labels += ","
		}
		samples[fmt.Sprintf("%s{%spod=%q}", name, labels, pod)] = value
	}
	return samples
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
