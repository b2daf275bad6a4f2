package envoygateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kedify/argo-rollouts-plugin/bench/internal/pace"
	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// writeRoot writes the files of the control plane's container, except its certificates: the program, the chart's
// configuration, and a kubeconfig without references to files.
func (f Files) writeRoot(root, kubeconfig string) error {
	config, err := f.configuration()
	if err != nil {
		return err
	}
	client, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return err
	}
	if err := clientcmdapi.FlattenConfig(client); err != nil {
		return err
	}
	for _, folder := range []string{"config", "certs", "tmp", "var/lib/eg/wasm"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
			return err
		}
	}
	return errors.Join(
		copyProgram(filepath.Join(f.Part, "bin", "envoy-gateway"), filepath.Join(root, "envoy-gateway")),
		writeFiles(filepath.Join(root, "config"), config),
		clientcmd.WriteToFile(*client, filepath.Join(root, "kubeconfig")),
	)
}

// configuration returns the files of the chart's ConfigMap.
func (f Files) configuration() (map[string][]byte, error) {
	manifest, err := os.Open(filepath.Clean(f.manifest()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = manifest.Close() }() // It is read only.
	const bufferSize = 4096
	decoder := utilyaml.NewYAMLOrJSONDecoder(manifest, bufferSize)
	for {
		var object corev1.ConfigMap
		if err := decoder.Decode(&object); err != nil {
			return nil, fmt.Errorf("%w: no ConfigMap in %s: %w", errPart, f.manifest(), err)
		}
		if object.Kind != "ConfigMap" {
			continue
		}
		files := map[string][]byte{}
		for name, text := range object.Data {
			files[name] = []byte(text)
		}
		return files, nil
	}
}

// copyProgram copies an executable file. A link does not work on another file system.
func copyProgram(from, to string) (err error) {
	source, err := os.Open(filepath.Clean(from))
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()                                                     // It is read only.
	target, err := os.OpenFile(filepath.Clean(to), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700) //nolint:gosec // a program
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, source)
	return err
}

// writeFiles writes files into a folder, and creates the folder.
func writeFiles(folder string, files map[string][]byte) error {
	err := os.MkdirAll(folder, 0o700)
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	return err
}

// readSecret returns the content of a Secret.
func (g *Gateway) readSecret(ctx context.Context, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := apiserver.Get(ctx, g.client, "/api/v1/namespaces/"+namespace+"/secrets/"+name, &secret)
	return secret.Data, err
}

// writeSDS writes the files of a proxy's ConfigMap, with references to certificates in a folder.
func (g *Gateway) writeSDS(ctx context.Context, name, folder, certs string) error {
	var object corev1.ConfigMap
	if err := apiserver.Get(ctx, g.client, "/api/v1/namespaces/"+namespace+"/configmaps/"+name, &object); err != nil {
		return err
	}
	files := map[string][]byte{}
	for name, text := range object.Data {
		files[name] = []byte(strings.ReplaceAll(text, "/certs/", certs+"/"))
	}
	return writeFiles(folder, files)
}

// deployment is the proxy's Deployment: its name, and the arguments of Envoy.
type deployment struct {
	name string
	args []string
}

// deployment waits for the Deployment of a Gateway.
func (g *Gateway) deployment(ctx context.Context, gatewayName string) (created deployment, err error) {
	const path, pause = "/apis/apps/v1/namespaces/" + namespace + "/deployments", 200 * time.Millisecond
	err = pace.Until(ctx, await.Patience(), pause, func() error {
		var list appsv1.DeploymentList
		if err := apiserver.Get(ctx, g.client, path, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			if item.Labels["gateway.envoyproxy.io/owning-gateway-name"] == gatewayName {
				created = deployment{item.Name, item.Spec.Template.Spec.Containers[0].Args}
				return nil
			}
		}
		return fmt.Errorf("%w: Gateway %s has no Deployment", errNotReady, gatewayName)
	})
	return created, err
}

// argument returns the value of an argument of Envoy, "" without one.
func (d deployment) argument(name string) string {
	at := slices.Index(d.args, name)
	if at < 0 || at+1 == len(d.args) {
		return ""
	}
	return d.args[at+1]
}
