package envoyproc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kedify/argo-rollouts-plugin/internal/agent/proxies"
)

// bootstrapPath and tokenPath are where the agent's Deployment mounts the ConfigMap and the Pod's token.
const bootstrapPath, tokenPath = "/etc/envoy", "/var/run/secrets/kedify" //nolint:gosec // a folder

// errConfigMap means that the agent applies no ConfigMap.
var errConfigMap = errors.New("the agent applies no ConfigMap")

// AgentBootstrap returns the bootstrap of a proxy of the agent that trusts CAs, in PEM, and has a token, with changes as
// those of Mount.Write. Its files are in folder, as those of a Mount.
func AgentBootstrap(folder string, ca []byte, token string, changes ...[2]string) (string, error) {
	mount := &Mount{Folder: folder}
	if err := mount.WriteToken(token); err != nil {
		return "", err
	}
	return mount.Write(ca, changes...)
}

// Mount is a folder with the volumes of the agent's proxies: the ConfigMap and the Pod's token. They change like
// volumes that the kubelet mounts: all files are links into a folder, and a rename of one link replaces all of them.
type Mount struct {
	// Folder exists and is empty at first.
	Folder string

	version int
}

// WriteToken replaces the token. Envoy does not start without one.
func (m *Mount) WriteToken(token string) error {
	return m.replace("token", map[string]string{"token": token})
}

// Write replaces the ConfigMap by that of proxies that trust CAs, in PEM. It returns the bootstrap for Envoy with this
// Mount, with changes as Change makes them.
func (m *Mount) Write(ca []byte, changes ...[2]string) (bootstrap string, err error) {
	files, err := configMap(ca)
	if err != nil {
		return "", err
	}
	if err := m.replace("bootstrap", files); err != nil {
		return "", err
	}
	return Change(files["envoy.yaml"], append(changes, [2]string{bootstrapPath, filepath.Join(m.Folder, "bootstrap")},
		[2]string{tokenPath, filepath.Join(m.Folder, "token")})...)
}

// replace replaces the files of a volume.
func (m *Mount) replace(volume string, files map[string]string) error {
	folder := filepath.Join(m.Folder, volume)
	m.version++
	data := fmt.Sprintf("..%d", m.version)
	if err := os.MkdirAll(filepath.Join(folder, data), 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, data, name), []byte(text), 0o600); err != nil {
			return err
		}
		err := os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	next := filepath.Join(folder, "..next")
	if err := os.Symlink(data, next); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(folder, "..data"))
}

// configMap returns the content of the ConfigMap that the agent applies.
func configMap(ca []byte) (map[string]string, error) {
	namespace := proxies.Namespace{Name: "apps", IsNeeded: true, Settings: proxies.Settings{CA: ca}}
	plan, err := namespace.Plan()
	if err != nil {
		return nil, err
	}
	for _, object := range plan.Apply {
		if object.GetKind() == "ConfigMap" {
			data, _, err := unstructured.NestedStringMap(object.Object, "data")
			return data, err
		}
	}
	return nil, errConfigMap
}
