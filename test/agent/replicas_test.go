package agent_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFailover starts a second agent, which is ready and serves the webhook while the first one writes, and
// terminates the first. It runs before the parallel tests, which therefore use the second.
//
//nolint:paralleltest // it replaces the agent of all
func TestFailover(t *testing.T) {
	folder := filepath.Join(shared.folder, "other")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	other, ports, err := shared.start(background(), folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := isReady(t.Context(), other, ports); err != nil {
		t.Fatal(err)
	}
	withWebhook(t, "replicas")
	var webhook admissionregistrationv1.MutatingWebhookConfiguration
	get(t, webhooks+"/kedify-http-agent", &webhook)
	for _, port := range []int{shared.ports[0], ports[0]} {
		trusted(t, port, webhook.Webhooks[0].ClientConfig.CABundle)
	}

	const path = "/apis/coordination.k8s.io/v1/namespaces/keda/leases/kedify-http-agent"
	var lease coordinationv1.Lease
	get(t, path, &lease)
	shared.agent.Stop(t)
	shared.agent, shared.ports = other, ports
	address := fmt.Sprintf(`[{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": %q}]`, webhookURL())
	if err := shared.admin.Patch(types.JSONPatchType).AbsPath(webhooks + "/kedify-http-agent").
		Body([]byte(address)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	team := namespace(t, "takeover")
	apply(t, team, shop(simple))
	awaitObject(t, team, "shop", "made by the other replica", there)
	isReleased(t, path, &lease)
}

// isReleased fails unless the holder of a Lease has released it since, and another replica acquired it after that.
// An expired Lease keeps its holder until then.
func isReleased(t *testing.T, path string, before *coordinationv1.Lease) {
	t.Helper()
	holder := func(lease *coordinationv1.Lease) string {
		if lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	states := history(t, path, before.ResourceVersion, func(lease *coordinationv1.Lease) bool {
		return holder(lease) != "" && holder(lease) != holder(before)
	})
	holders := []string{holder(before)}
	for _, lease := range states {
		holders = append(holders, holder(lease))
	}
	holders = slices.Compact(holders)
	transitions := *states[len(states)-1].Spec.LeaseTransitions - *before.Spec.LeaseTransitions
	if len(holders) != 3 || holders[1] != "" || transitions != 1 {
		t.Errorf("the holders of the Lease were %q, with %d more transitions; want it released between two holders", holders,
			transitions)
	}
}

// trusted fails unless the API server would trust the server at a port.
func trusted(t *testing.T, port int, authorities []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost"}}
	connection, err := dialer.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Error(err)
		return
	}
	if err := connection.Close(); err != nil {
		t.Error(err)
	}
}
