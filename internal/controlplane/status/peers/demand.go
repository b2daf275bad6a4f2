package peers

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/metrics"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/status/peers/peerspb"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/endpoints"
)

// WatchDemand calls receive with the reports of a replica until ctx ends or the stream fails: first a whole report, then
// changes. It opens a connection of its own.
func (p *Peers) WatchDemand(ctx context.Context, replica endpoints.Pod, receive func(metrics.Report)) error {
	conn, err := p.dial(replica.Address)
	if err != nil {
		return fmt.Errorf("connect to replica %s: %w", replica.Name, err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := peerspb.NewReplicasClient(conn).Demand(ctx, new(peerspb.DemandRequest))
	if err != nil {
		return fmt.Errorf("reports of replica %s: %w", replica.Name, err)
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("reports of replica %s: %w", replica.Name, err)
		}
		if len(message.GetJson()) == 0 { // The replica had nothing to send.
			continue
		}
		var report metrics.Report
		if err := json.Unmarshal(message.GetJson(), &report); err != nil {
			return fmt.Errorf("reports of replica %s: %w", replica.Name, err)
		}
		receive(report)
	}
}
