package node

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/kedify/argo-rollouts-plugin/localcluster/cluster"
	"github.com/kedify/argo-rollouts-plugin/localcluster/images"
	"github.com/kedify/argo-rollouts-plugin/localcluster/install"
)

// Config is the configuration that the host passes to the inside.
type Config struct {
	// Settings describe the cluster.
	Settings cluster.Settings `json:"settings"`
	// Images are served by the cluster's registry.
	Images []images.Spec `json:"images"`
	// Steps are executed in order once the API server is ready.
	Steps []install.Step `json:"steps"`
	// Forwards are the targets, inside the cluster, of the host's listeners, in the order of the inherited listeners.
	Forwards []Forward `json:"forwards"`
	// Owner is the user who started the cluster.
	Owner int `json:"owner"`
	// Contents are hashes of the cluster's components.
	Contents Contents `json:"contents"`
	// Bare reports whether only DNS is installed.
	Bare bool `json:"bare,omitempty"`
	// Addons are the add-ons that were requested. The inside does not use them; later commands do.
	Addons []string `json:"addons,omitempty"`
}

// Contents are hashes of the cluster's components, from which the next command finds out what has changed. The inside
// does not use them.
type Contents struct {
	// Components are the folders of the built components, by name. A folder's name contains a hash of the component's
	// inputs.
	Components map[string]string `json:"parts"`
	// Programs are hashes of this project's own programs, by name.
	Programs map[string]string `json:"programs"`
	// Given are the programs that a user passed as binaries.
	Given []string `json:"given,omitempty"`
	// Manifests is a hash of the applied manifests.
	Manifests string `json:"manifests"`
}

// Forward connects a listener on the host to a target inside.
type Forward struct {
	// Name is the forward's name in the cluster's status.
	Name string `json:"name"`
	// Target is host:port. The host is an address or the DNS name of a Service.
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
