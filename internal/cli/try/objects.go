package try

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
)

//go:embed *.yaml
var templates embed.FS

const (
	// name is the name of the Rollout, its HTTPScaledObject and its HTTPRoute.
	name = "try"
	// host is the Host header of the load.
	host = "http-canary-try.example.com"
	// stableColor and canaryColor are the colors of the two versions.
	stableColor, canaryColor = "blue", "green"
)

// Setup contains the parameters of a trial.
type Setup struct {
	// Namespace is the namespace that is created and deleted.
	Namespace string
	// Router is [facts.HTTPRouter] or [facts.GatewayRouter].
	Router string
	// Gateway is the parent of the HTTPRoute, with GatewayRouter.
	Gateway types.NamespacedName
	// Address is the destination (host:port) of the load. With HTTPRouter it may be empty: then it is the trial's own
	// proxies.
	Address string
	// Image is the image of the sample application, which also generates the load.
	Image string
	// Weight is the weight of the canary at its step, in percent.
	Weight int
	// Rate is the load in requests per second, Requests the number of requests to measure.
	Rate, Requests int
	// Abort aborts the canary at the end; otherwise it is promoted.
	Abort bool
}

// routing returns the value of field plugins in the Rollout.
func (s *Setup) routing() (string, error) {
	config := map[string]any{"httpRoute": name, "namespace": s.Namespace}
	if s.Router == facts.HTTPRouter {
		config = map[string]any{"httpScaledObjectName": name}
	}
	text, err := json.Marshal(map[string]any{s.Router: config})
	return string(text), err
}

// Objects returns the application and its routing objects, in the order of creation. files is folder config, which
// contains the manifests of the proxies.
func (s *Setup) Objects(files fs.FS) ([]manifests.Object, error) {
	all, err := s.readFile("application.yaml")
	if err != nil {
		return nil, err
	}
	if s.Router == facts.GatewayRouter {
		route, err := s.readFile("httproute.yaml")
		return append(all, route...), err
	}
	object, err := s.readFile("httpscaledobject.yaml")
	if err != nil {
		return nil, err
	}
	proxies, err := manifests.NewSet(files, manifests.Options{
		Components: []manifests.Component{manifests.Proxy}, ProxyNamespaces: []string{s.Namespace},
	}).Objects()
	return append(append(all, object...), proxies...), err
}

// LoadPod returns the Pod that generates the load.
func (s *Setup) LoadPod() (manifests.Object, error) {
	all, err := s.readFile("load.yaml")
	if err != nil {
		return manifests.Object{}, err
	}
	return all[0], nil
}

// Rollout returns the Rollout of the application.
func (s *Setup) Rollout() (*v1alpha1.Rollout, error) {
	all, err := s.readFile("application.yaml")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(all[len(all)-1].Content)
	if err != nil {
		return nil, err
	}
	rollout := new(v1alpha1.Rollout)
	return rollout, json.Unmarshal(text, rollout)
}

// address returns the destination of the load.
func (s *Setup) address() string {
	if s.Address != "" {
		return s.Address
	}
	return facts.ProxyService + "." + s.Namespace + ":8080"
}

// readFile reads the objects of a template in the trial's namespace.
func (s *Setup) readFile(file string) ([]manifests.Object, error) {
	text, err := templates.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	routing, err := s.routing()
	if err != nil {
		return nil, err
	}
	filled := strings.NewReplacer(
		"IMAGE", strconv.Quote(s.Image), "ROUTER", routing, "WEIGHT", strconv.Itoa(s.Weight), "HOST_FLAG",
		"--host="+host, "HOST", host,
		"GATEWAY_NAMESPACE", strconv.Quote(s.Gateway.Namespace), "GATEWAY_NAME", strconv.Quote(s.Gateway.Name),
		"ADDRESS_FLAG", strconv.Quote("--address="+s.address()), "RATE_FLAG", "--rate="+strconv.Itoa(s.Rate),
	).Replace(string(text))
	return manifests.Decode(file, []byte(filled), s.Namespace)
}
