package try

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
)

//go:embed *.yaml
var application embed.FS

const (
	// name is that of the Rollout, its HTTPScaledObject and its HTTPRoute.
	name = "try"
	// host is the one that the load asks for.
	host = "http-canary-try.example.com"
	// before and after are the colours of the two versions.
	before, after = "blue", "green"
)

// Setup is what is to be tried.
type Setup struct {
	// Namespace is the one that is made and removed.
	Namespace string
	// Router is [installation.HTTPRouter] or [installation.GatewayRouter].
	Router string
	// Gateway is the one that the route is attached to, with GatewayRouter.
	Gateway types.NamespacedName
	// Address is the host and port that the load asks. With HTTPRouter it may be empty for the trial's own proxies.
	Address string
	// Image is that of the sample application, which also makes the load.
	Image string
	// Weight is the canary's at its step, in percent.
	Weight int
	// Rate is the load in requests a second, Requests how many of them a share is measured by.
	Rate, Requests int
	// Abort says that the canary is aborted in the end; otherwise it is promoted.
	Abort bool
}

// routing is what stands under plugins in the Rollout.
func (s *Setup) routing() (string, error) {
	config := map[string]any{"httpRoute": name, "namespace": s.Namespace}
	if s.Router == facts.HTTPRouter {
		config = map[string]any{"httpScaledObjectName": name}
	}
	text, err := json.Marshal(map[string]any{s.Router: config})
	return string(text), err
}

// Objects are the application and what its requests are routed by, in the order in which they are made. The proxies are those of files, the folder config.
func (s *Setup) Objects(files fs.FS) ([]manifests.Object, error) {
	all, err := s.read("application.yaml")
	if err != nil {
		return nil, err
	}
	if s.Router == facts.GatewayRouter {
		route, err := s.read("httproute.yaml")
		return append(all, route...), err
	}
	object, err := s.read("httpscaledobject.yaml")
	if err != nil {
		return nil, err
	}
	proxies, err := manifests.NewSet(files, manifests.Wishes{
		Components: []manifests.Component{manifests.Proxy}, ProxyNamespaces: []string{s.Namespace},
	}).Objects()
	return append(append(all, object...), proxies...), err
}

// Load is the Pod that makes the load.
func (s *Setup) Load() (manifests.Object, error) {
	all, err := s.read("load.yaml")
	if err != nil {
		return manifests.Object{}, err
	}
	return all[0], nil
}

// Rollout is the application's, as it will be.
func (s *Setup) Rollout() (*v1alpha1.Rollout, error) {
	all, err := s.read("application.yaml")
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

// address is what the load asks.
func (s *Setup) address() string {
	if s.Address != "" {
		return s.Address
	}
	return facts.ProxyService + "." + s.Namespace + ":8080"
}

// read reads the objects of a file, filled in, in the trial's namespace.
func (s *Setup) read(file string) ([]manifests.Object, error) {
	text, err := application.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	routing, err := s.routing()
	if err != nil {
		return nil, err
	}
	filled := strings.NewReplacer(
		"IMAGE", strconv.Quote(s.Image), "ROUTER", routing, "WEIGHT", strconv.Itoa(s.Weight), "HOST_FLAG", "--host="+host, "HOST", host,
		"GATEWAY_NAMESPACE", strconv.Quote(s.Gateway.Namespace), "GATEWAY_NAME", strconv.Quote(s.Gateway.Name),
		"ADDRESS_FLAG", strconv.Quote("--address="+s.address()), "RATE_FLAG", "--rate="+strconv.Itoa(s.Rate),
	).Replace(string(text))
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(filled)), len(filled))
	var all []manifests.Object
	for {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", file, err)
		}
		metadata, _ := content["metadata"].(map[string]any)
		metadata["namespace"] = s.Namespace
		version, _ := content["apiVersion"].(string)
		kind, _ := content["kind"].(string)
		called, _ := metadata["name"].(string)
		all = append(all, manifests.Object{
			Reference: manifests.Reference{APIVersion: version, Kind: kind, Namespace: s.Namespace, Name: called}, Content: content,
		})
	}
}
