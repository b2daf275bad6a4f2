package node

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
)

// Config is what the host tells the inside.
type Config struct {
	// Settings describe the cluster.
	Settings cluster.Settings `json:"settings"`
	// Images are served by the cluster's registry.
	Images []images.Spec `json:"images"`
	// Steps are carried out, in order, once the API server is ready.
	Steps []install.Step `json:"steps"`
	// Forwards are the addresses inside the cluster that the host's listeners
	// lead to, in the order of the inherited listeners.
	Forwards []Forward `json:"forwards"`
	// Addons name what was asked for beyond what every cluster has. The inside
	// has no use for them; the next command that asks for them has.
	Addons []string `json:"addons,omitempty"`
}

// Forward leads connections that the host accepts to an address inside.
type Forward struct {
	// Name is what the address is called in the cluster's status.
	Name string `json:"name"`
	// Target is host:port; the host is an address, or the DNS name of a Service.
	Target string `json:"target"`
}

// ReadConfig reads a configuration file that the host wrote.
func ReadConfig(path string) (Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the node configuration: %w", err)
	}
	var c Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return Config{}, fmt.Errorf("read the node configuration %s: %w", path, err)
	}
	return c, nil
}
