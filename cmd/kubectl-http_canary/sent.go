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
const countEvery = 2 * time.Second

// errNoProxy reports a Rollout without an HTTPScaledObject, whose requests no proxy counts.
var errNoEnvoy = errors.New("references no existing HTTPScaledObject: --sent works only with router " + facts.HTTPRouter)

// reportWithCounts returns the traffic split of the Rollout of cluster, including the request counts of the proxies.
func counted(ctx context.Context, reader *gather.Reader, cluster *facts.Facts) (split.Sharing, error) {
	told := split.Of(cluster, &cluster.Rollouts[0])
	objects := cluster.ObjectsOf(&cluster.Rollouts[0])
	if len(objects) == 0 {
		return told, fmt.Errorf("rollout %s: %w", told.Rollout, errNoEnvoy)
	}
	for _, object := range objects {
		sent, err := reader.Sent(ctx, cluster, object)
		if err != nil {
			return told, err
		}
		told.Count(object, sent)
	}
	return told, nil
}

// watchWithCounts calls notify with the traffic split and the request counts, at each change and every countInterval.
func followCounted(ctx context.Context, reader *gather.Reader, name types.NamespacedName, told func(split.Sharing) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Watch modifies the facts after its callback has returned. The callback therefore blocks until they are copied.
	changes, done := make(chan *facts.Facts), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- reader.Follow(ctx, name, func(cluster *facts.Facts) error {
			select {
			case changes <- cluster:
				<-done
			case <-ctx.Done():
			}
			return nil
		})
	}()
	var last facts.Facts
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case cluster := <-changes:
			last = copied(cluster)
			done <- struct{}{}
		case <-tick.C:
		}
		if last.Rollouts == nil {
			continue
		}
		now, err := counted(ctx, reader, &last)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = told(now)
		}
		if err != nil {
			return err
		}
	}
}

// snapshot returns a copy of the facts of one Rollout that later updates do not modify. Objects are shared, because
// updates replace them as a whole.
func copied(cluster *facts.Facts) facts.Facts {
	own := *cluster
	own.Rollouts = append([]facts.Rollout(nil), cluster.Rollouts...)
	own.HTTPScaledObjects = append(own.HTTPScaledObjects[:0:0], cluster.HTTPScaledObjects...)
	own.Routes = append(own.Routes[:0:0], cluster.Routes...)
	return own
}

// countsLine formats the request counts of one proxy: since its start and, if before is not nil, since the counts in
// before.
func sentLine(sent split.Sent, before []int64, since time.Duration) string {
	text := "  sent by " + sent.Proxy + ": "
	if sent.Problem != "" {
		return text + sent.Problem
	}
	if before == nil || len(before) != len(sent.Requests) {
		return text + slashed(sent.Requests) + shares(sent.Requests) + " since start"
	}
	newly := make([]int64, len(before))
	for i := range before {
		newly[i] = sent.Requests[i] - before[i]
		if newly[i] < 0 { // Envoy was restarted.
			newly[i] = sent.Requests[i]
		}
	}
	return fmt.Sprintf("%s%s in %.0f s%s, %s since start", text, slashed(newly), since.Seconds(), shares(newly), slashed(sent.Requests))
}

// joinCounts joins numbers with slashes.
func slashed(numbers []int64) string {
	var each []string
	for _, number := range numbers {
		each = append(each, strconv.FormatInt(number, 10))
	}
	return strings.Join(each, "/")
}

// percentages formats the percentage of each number in the sum of requests. It is empty if the sum is 0.
func shares(requests []int64) string {
	var sum int64
	for _, number := range requests {
		sum += number
	}
	if sum == 0 {
		return ""
	}
	var each []string
	for _, number := range requests {
		each = append(each, fmt.Sprintf("%.1f", 100*float64(number)/float64(sum)))
	}
	return " (" + strings.Join(each, "/") + " %)"
}
