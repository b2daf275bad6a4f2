package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kedify/argo-rollouts-plugin/config"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/doctor"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/facts/gather"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/manifests"
	"github.com/kedify/argo-rollouts-plugin/internal/cli/install/registration"
	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/server"
)

const (
	// releasesURL is the base URL of release downloads.
	releasesURL = "https://github.com/kedify/argo-rollouts-plugin/releases/download"
	// pluginFolder is the volume of the controller's Deployment that the init containers copy plugins to.
	pluginFolder = "/home/argo-rollouts/plugin-bin"
)

// installOptions are the options of the command.
type installOptions struct {
	show    *display
	conn    *connection
	print   bool
	dryRun  bool
	timeout time.Duration

	routers    []string
	components []string
	namespaces []string

	baseURL       string
	platform      string
	checksums     string
	initContainer bool
	replace       bool

	registry string
	tag      string
}

// newInstall returns the command that installs.
func newInstall(conn *connection, show *display) *cobra.Command {
	options := &installOptions{conn: conn, show: show}
	command := &cobra.Command{
		Use:   "install",
		Short: "Install the routers and, optionally, the data plane and autoscaling",
		Long: `install registers the routers in trafficRouterPlugins of the Argo Rollouts controller, grants the
controller the permissions that they need, and restarts it. Entries of other plugins stay. With --components it
first installs components of the data plane and of autoscaling. It waits until everything is available, and then
runs the checks of doctor.

Objects that install creates have the label app.kubernetes.io/managed-by=kubectl-http-canary. If an object or an
entry of the same name belongs to another owner, install fails before it changes anything. You can run install
again to upgrade, or to continue after an interruption. The namespaces must exist.

Plugin binaries are downloaded from the release of this command, or from --from. Their checksums come from
checksums.txt of the release, or from --checksums. The platform is the platform of the controller's nodes. With
--print, install prints all objects, e.g. for Git, and changes nothing.`,
		Example: `  # Install both routers
  kubectl http-canary install

  # Install router kedify/http with proxies in namespace shop, and autoscaling by requests
  kubectl http-canary install --router kedify/http --components interceptor,proxy,scaler,agent --proxy-namespace shop

  # Show what would change
  kubectl http-canary install --dry-run`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context(), command.OutOrStdout())
		},
	}
	options.addFlags(command)
	return command
}

// addFlags adds the flags to the command.
func (i *installOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&i.print, "print", false, "print the objects and change nothing")
	flags.BoolVar(&i.dryRun, "dry-run", false, "submit the requests as a server-side dry run, without persisting them")
	addTimeout(flags, &i.timeout, 5*time.Minute, "maximum `time` for the command")
	flags.StringSliceVar(&i.routers, "router", registration.Routers(), "`names` of the routers to register")
	flags.StringSliceVar(&i.components, "components", nil,
		"`components` to install in addition: "+strings.Join(componentNames(), ", "))
	flags.StringSliceVar(&i.namespaces, "proxy-namespace", nil,
		"`namespaces` to install proxies in, with component proxy")
	flags.StringVar(&i.baseURL, "from", "", "base `URL` of the plugin binaries (default: the release of this command)")
	flags.StringVar(&i.platform, "platform", "",
		"`platform` of the plugin binaries, e.g. linux-amd64 (default: the platform of the controller's nodes)")
	flags.StringVar(&i.checksums, "checksums", "",
		"`file` with the checksums of the release (default: checksums.txt next to the binaries)")
	flags.BoolVar(&i.initContainer, "init-container", false,
		"copy the plugin binaries from an image by init containers, for controllers without internet access")
	flags.BoolVar(&i.replace, "replace", false,
		"replace entries of the same name that were not created by this command")
	flags.StringVar(&i.registry, "image-registry", config.Registry, "`registry` and organization of the images")
	flags.StringVar(&i.tag, "image-tag", "", "image `tag` (default: the release of this command)")
	// The error is for an unknown flag.
	_ = command.RegisterFlagCompletionFunc("components",
		cobra.FixedCompletions(componentNames(), cobra.ShellCompDirectiveNoFileComp))
}

// componentNames lists the valid values of --components.
func componentNames() []string {
	var names []string
	for _, component := range manifests.Components() {
		names = append(names, string(component))
	}
	return names
}

// complete validates the options and sets the defaults that depend on the release.
func (i *installOptions) complete() error {
	hasProxy := slices.Contains(i.components, string(manifests.Proxy))
	switch {
	case i.print && i.dryRun:
		return usageError(errors.New("--print and --dry-run are mutually exclusive"))
	case hasProxy != (len(i.namespaces) > 0):
		return usageError(errors.New("--components=proxy and --proxy-namespace require each other"))
	case i.initContainer && (i.baseURL != "" || i.checksums != "" || i.platform != "" || i.print):
		return usageError(errors.New("--init-container cannot be combined with --from, --checksums, --platform " +
			"or --print"))
	}
	for _, name := range i.components {
		if !slices.Contains(componentNames(), name) {
			return usageError(fmt.Errorf("unknown component %q: use one of %s", name,
				strings.Join(componentNames(), ", ")))
		}
	}
	release := strings.TrimPrefix(server.Version(version), "v")
	isRelease := regexp.MustCompile(`^\d+\.\d+\.\d+(-[a-z]+\.\d+)?$`).MatchString(release)
	switch {
	case i.baseURL == "" && !i.initContainer && !isRelease:
		return usageError(fmt.Errorf("not a release build (version %s): specify --from", release))
	case i.tag == "" && (i.initContainer || len(i.components) > 0) && !isRelease:
		return usageError(fmt.Errorf("not a release build (version %s): specify --image-tag", release))
	case i.baseURL == "":
		i.baseURL = releasesURL + "/v" + release
	}
	if i.tag == "" {
		i.tag = release
	}
	i.baseURL = strings.TrimSuffix(i.baseURL, "/")
	return nil
}

// run computes the objects, then prints them or applies them.
func (i *installOptions) run(ctx context.Context, out io.Writer) error {
	if err := i.complete(); err != nil {
		return err
	}
	client, err := i.conn.client()
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, i.timeout)
	defer cancel()
	cluster, err := gather.New(client, "").Controller(ctx)
	if err != nil {
		return err
	}
	if cluster.Controller == nil {
		return errNoController
	}
	if err := i.checkProducts(cluster); err != nil {
		return err
	}
	entries, err := i.entries(ctx, cluster)
	if err != nil {
		return err
	}
	set := manifests.NewSet(config.Files, i.manifestOptions(cluster))
	objects, err := set.Objects()
	if err != nil {
		return err
	}
	if i.print {
		return printManifests(out, cluster, objects, entries)
	}
	plan := install.Plan{
		Objects: objects, Controller: controllerName(cluster), Entries: entries, Replace: i.replace,
		Patch: func(plugins string) (manifests.Object, error) { return set.ControllerPatch(plugins, i.initContainer) },
	}
	if err := install.New(client, linePrinter(out), i.dryRun).Install(ctx, plan); err != nil || i.dryRun {
		return err
	}
	return i.verify(ctx, out, client)
}

// errOtherProduct reports a product that must not run next to the components.
var errOtherProduct = errors.New("changes the same HTTPScaledObjects as the components: remove it first " +
	"(docs/how-to/migrate.md)")

// checkProducts returns an error if components would be installed next to a product that changes the same objects. The
// routers alone can be.
func (i *installOptions) checkProducts(cluster *facts.Facts) error {
	if i.print || len(i.components) == 0 {
		return nil
	}
	var failed error
	for _, other := range cluster.Others {
		name := manifests.Reference{Kind: "Deployment", Namespace: other.Namespace, Name: other.Name}
		failed = errors.Join(failed,
			fmt.Errorf("%s belongs to %s, which %w", name, facts.OtherProduct(other), errOtherProduct))
	}
	return failed
}

// errNoController reports that the Argo Rollouts controller is not installed.
var errNoController = errors.New("no Deployment has the labels app.kubernetes.io/name=argo-rollouts and " +
	"app.kubernetes.io/component=rollouts-controller: install Argo Rollouts first")

// controllerName returns the name of the controller's Deployment.
func controllerName(cluster *facts.Facts) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Controller.Namespace, Name: cluster.Controller.Name}
}

// manifestOptions returns the options of the manifests for a cluster.
func (i *installOptions) manifestOptions(cluster *facts.Facts) manifests.Options {
	options := manifests.Options{
		Routers: i.routers, ProxyNamespaces: i.namespaces, Registry: i.registry, Tag: i.tag,
		Controller: controllerName(cluster),
		Account: types.NamespacedName{
			Namespace: cluster.Controller.Namespace,
			Name:      cluster.Controller.Spec.Template.Spec.ServiceAccountName,
		},
	}
	for _, name := range i.components {
		options.Components = append(options.Components, manifests.Component(name))
	}
	return options
}

// entries returns the plugin entries of the routers.
func (i *installOptions) entries(ctx context.Context, cluster *facts.Facts) ([]registration.Entry, error) {
	if i.initContainer {
		return registration.Files(i.routers, pluginFolder)
	}
	checksums, err := i.readChecksums(ctx)
	if err != nil {
		return nil, err
	}
	platform := i.platform
	if platform == "" {
		if platform, err = registration.Platform(cluster); err != nil {
			return nil, err
		}
	}
	return registration.Entries(i.routers, i.baseURL, platform, checksums)
}

// readChecksums reads the checksums of the release from a file, or downloads them.
func (i *installOptions) readChecksums(ctx context.Context) (string, error) {
	if i.checksums == "" {
		return download(ctx, i.baseURL+"/checksums.txt")
	}
	text, err := os.ReadFile(filepath.Clean(i.checksums))
	return string(text), err
}

// linePrinter returns a function that prints lines. It ignores write errors.
func linePrinter(out io.Writer) func(string) {
	return func(line string) { _, _ = fmt.Fprintln(out, line) }
}

// verify runs the checks of doctor on the new installation.
func (i *installOptions) verify(ctx context.Context, out io.Writer, client *kube.Client) error {
	cluster, err := readAll(ctx, gather.New(client, ""))
	if err != nil {
		return err
	}
	findings := doctor.Examine(cluster)
	if err := doctor.PrintFindings(out, i.show.style(out), findings); err != nil {
		return err
	}
	if doctor.HasError(findings) {
		return errFinding
	}
	return nil
}
