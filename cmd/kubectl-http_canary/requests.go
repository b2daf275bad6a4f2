package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/split"
)

// countInterval is the interval at which proxies are queried for request counts while watching.
const countInterval = 2 * time.Second

// errNoProxy reports a Rollout without an HTTPScaledObject, whose requests no proxy counts.
var errNoProxy = errors.New("references no existing HTTPScaledObject: --sent works only with router " +
	facts.HTTPRouter)

// reportWithCounts returns the traffic split of the Rollout of cluster, including the request counts of the proxies.
func reportWithCounts(ctx context.Context, reader *gather.Reader, cluster *facts.Facts) (split.Report, error) {
	report := split.Of(cluster, &cluster.Rollouts[0])
	objects := cluster.ObjectsOf(&cluster.Rollouts[0])
	if len(objects) == 0 {
		return report, fmt.Errorf("rollout %s: %w", report.Rollout, errNoProxy)
	}
	for _, object := range objects {
		requests, err := reader.ProxyRequests(ctx, cluster, object)
		if err != nil {
			return report, err
		}
		report.AddRequests(object, requests)
	}
	return report, nil
}

// watchWithCounts calls notify with the traffic split and the request counts, at each change and every countInterval.
func watchWithCounts(ctx context.Context, reader *gather.Reader, name types.NamespacedName,
	notify func(split.Report) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Watch modifies the facts after its callback has returned. The callback therefore blocks until they are copied.
	changes, done := make(chan *facts.Facts), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- reader.Watch(ctx, name, func(cluster *facts.Facts) error {
			select {
			case changes <- cluster:
				<-done
			case <-ctx.Done():
			}
			return nil
		})
	}()
	var last facts.Facts
	tick := time.NewTicker(countInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case cluster := <-changes:
			last = snapshot(cluster)
			done <- struct{}{}
		case <-tick.C:
		}
		if last.Rollouts == nil {
			continue
		}
		report, err := reportWithCounts(ctx, reader, &last)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = notify(report)
		}
		if err != nil {
			return err
		}
	}
}

// snapshot returns a copy of the facts of one Rollout that later updates do not modify. Objects are shared, because
// updates replace them as a whole.
func snapshot(cluster *facts.Facts) facts.Facts {
	copied := *cluster
	copied.Rollouts = append([]facts.Rollout(nil), cluster.Rollouts...)
	copied.HTTPScaledObjects = append(copied.HTTPScaledObjects[:0:0], cluster.HTTPScaledObjects...)
	copied.Routes = append(copied.Routes[:0:0], cluster.Routes...)
	return copied
}

// countsLine formats the request counts of one proxy: since its start and, if before is not nil, since the counts in
// before.
func countsLine(counts split.ProxyRequests, before []int64, since time.Duration) string {
	text := "  sent by " + counts.Proxy + ": "
	if counts.Problem != "" {
		return text + counts.Problem
	}
	if before == nil || len(before) != len(counts.Requests) {
		return text + joinCounts(counts.Requests) + percentages(counts.Requests) + " since start"
	}
	delta := make([]int64, len(before))
	for i := range before {
		delta[i] = counts.Requests[i] - before[i]
		if delta[i] < 0 { // Envoy was restarted.
			delta[i] = counts.Requests[i]
		}
	}
	return fmt.Sprintf("%s%s in %.0f s%s, %s since start", text, joinCounts(delta), since.Seconds(), percentages(delta),
		joinCounts(counts.Requests))
}

// joinCounts joins numbers with slashes.
func joinCounts(numbers []int64) string {
	var texts []string
	for _, number := range numbers {
		texts = append(texts, strconv.FormatInt(number, 10))
	}
	return strings.Join(texts, "/")
}

// percentages formats the percentage of each number in the sum of requests. It is empty if the sum is 0.
func percentages(requests []int64) string {
	var sum int64
	for _, number := range requests {
		sum += number
	}
	if sum == 0 {
		return ""
	}
	var texts []string
	for _, number := range requests {
		texts = append(texts, fmt.Sprintf("%.1f", 100*float64(number)/float64(sum)))
	}
	return " (" + strings.Join(texts, "/") + " %)"
}
