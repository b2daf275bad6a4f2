package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/internal/apiserver"
	"github.com/kedify/argo-rollouts-plugin/internal/installation"
	"github.com/kedify/argo-rollouts-plugin/internal/installation/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/registration"
	"github.com/kedify/argo-rollouts-plugin/internal/telemetry"
)

// releases is where the files of releases are.
const releases = "https://github.com/kedify/argo-rollouts-plugin/releases/download"

// install is what its command line asks for.
type install struct {
	way       *way
	prints    bool
	tries     bool
	routers   []string
	from      string
	platform  string
	checksums string
}

// newInstall returns the command that registers routers.
func newInstall(way *way) *cobra.Command {
	asked := &install{way: way}
	command := &cobra.Command{
		Use:   "install (--print | --dry-run)",
		Short: "Print the controller's ConfigMap with routers beside the plugins that are there",
		Long: `install reads the ConfigMap argo-rollouts-config as it is, and puts the entries of routers into its trafficRouterPlugins
beside those of others, or in the place of older ones. It changes nothing: apply what it prints, then restart the controller.

The files are those of the release that this command is of, or those below --from; their checksums are in the release's
checksums.txt. The platform is that of the controller's nodes. Roles and the data path: docs/install.md.`,
		Example: `  # Register both routers beside other plugins
  kubectl http-canary install --print --checksums checksums.txt | kubectl apply --server-side --force-conflicts -f -

  # Would the API server take it?
  kubectl http-canary install --dry-run --checksums checksums.txt --router kedify/http`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return asked.run(command.Context(), command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.BoolVar(&asked.prints, "print", false, "print the ConfigMap")
	flags.BoolVar(&asked.tries, "dry-run", false, "have the API server judge it without storing it, and say what it answers")
	flags.StringSliceVar(&asked.routers, "router", registration.Routers(), "`names` of the routers")
	flags.StringVar(&asked.from, "from", "", "`address` below which the files are; by default that of the command's own release")
	flags.StringVar(&asked.platform, "platform", "", "`platform` of the files, such as linux-amd64; by default that of the controller's nodes")
	flags.StringVar(&asked.checksums, "checksums", "", "`file` with the release's checksums")
	return command
}

// check refuses what makes no sense.
func (i *install) check() error {
	switch {
	case i.prints == i.tries:
		return usage(errors.New("write one of --print and --dry-run"))
	case i.checksums == "":
		return usage(errors.New("--checksums is missing: fetch checksums.txt of the release, and name it"))
	}
	if i.from != "" {
		i.from = strings.TrimSuffix(i.from, "/")
		return nil
	}
	release := strings.TrimPrefix(telemetry.Version(version), "v")
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`).MatchString(release) {
		return usage(fmt.Errorf("this command is %s, which is no release: say by --from where the files are", release))
	}
	i.from = releases + "/v" + release
	return nil
}

// run works out the ConfigMap, and prints it or asks the API server about it.
func (i *install) run(ctx context.Context, out io.Writer) error {
	if err := i.check(); err != nil {
		return err
	}
	checksums, err := os.ReadFile(filepath.Clean(i.checksums))
	if err != nil {
		return err
	}
	client, err := i.way.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	facts, err := gather.New(client, "").Controller(ctx)
	if err != nil {
		return err
	}
	configMap, err := i.configMap(facts, string(checksums))
	if err != nil {
		return err
	}
	if i.tries {
		return try(ctx, out, client, facts, configMap)
	}
	text, err := yaml.Marshal(configMap)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

// errNoController says that there is nobody to register routers with.
var errNoController = errors.New("no Deployment has the labels app.kubernetes.io/name=argo-rollouts and app.kubernetes.io/component=rollouts-controller: " +
	"install Argo Rollouts first")

// configMap is the controller's with the routers. It has all that the live one has: whoever applied that by server-side
// apply would otherwise take away what is missing in it.
func (i *install) configMap(facts *installation.Facts, checksums string) (map[string]any, error) {
	if facts.Controller == nil {
		return nil, errNoController
	}
	platform := i.platform
	if platform == "" {
		found, err := registration.Platform(facts)
		if err != nil {
			return nil, err
		}
		platform = found
	}
	entries, err := registration.Entries(i.routers, i.from, platform, checksums)
	if err != nil {
		return nil, err
	}
	merged, err := registration.Merge(pluginsOf(facts.Plugins), entries)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: data.%s: %w", facts.Controller.Namespace, installation.ConfigMapName, installation.PluginsKey, err)
	}
	metadata := map[string]any{"name": installation.ConfigMapName, "namespace": facts.Controller.Namespace}
	data := map[string]string{}
	if live := facts.Plugins; live != nil {
		maps.Copy(data, live.Data)
		annotations := maps.Clone(live.Annotations)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		for field, values := range map[string]map[string]string{"labels": live.Labels, "annotations": annotations} {
			if len(values) > 0 {
				metadata[field] = values
			}
		}
	}
	data[installation.PluginsKey] = merged
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, nil
}

// pluginsOf is the text of the plugins.
func pluginsOf(configMap *corev1.ConfigMap) string {
	if configMap == nil {
		return ""
	}
	return configMap.Data[installation.PluginsKey]
}

// try has the API server apply the ConfigMap without storing it, and says what would change.
func try(ctx context.Context, out io.Writer, client *apiserver.Client, facts *installation.Facts, configMap map[string]any) error {
	body, err := json.Marshal(configMap)
	if err != nil {
		return err
	}
	namespace := facts.Controller.Namespace
	answer, err := client.Do(ctx, apiserver.Request{
		Verb: http.MethodPatch, Path: []string{"api", "v1", "namespaces", namespace, "configmaps", installation.ConfigMapName},
		Query:       map[string]string{"fieldManager": fieldManager, "force": "true", "dryRun": metav1.DryRunAll},
		ContentType: string(types.ApplyPatchType), Body: body,
	})
	if err != nil {
		return err
	}
	var applied corev1.ConfigMap
	if err := json.Unmarshal(answer, &applied); err != nil {
		return err
	}
	change := "would be changed"
	switch {
	case facts.Plugins == nil:
		change = "would be created"
	case pluginsOf(&applied) == pluginsOf(facts.Plugins):
		change = "is as it should be"
	}
	_, err = fmt.Fprintf(out, "ConfigMap %s/%s %s\n", namespace, installation.ConfigMapName, change)
	return err
}
