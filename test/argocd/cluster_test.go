package argocd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
	"github.com/kedify/argo-rollouts-plugin/test/kit/loopback"
	"github.com/kedify/argo-rollouts-plugin/test/kit/program"
	"github.com/kedify/argo-rollouts-plugin/test/kit/rolloutscontroller"
)

const (
	// partVariable names the folder of component argo-cd; make test-argocd sets it.
	partVariable = "ARGOCD_PART"
	// definitionsVariable names the folder of the Gateway API's CRDs.
	definitionsVariable = "GATEWAY_API_CRDS"
	// argoNamespace is Argo CD's namespace.
	argoNamespace = "argocd"
	manifests     = "../../config/"
)

// cluster is an API server with the Argo Rollouts controller, both plugins, the agent and Argo CD.
type cluster struct {
	*apiserver.ControlPlane

	admin      *rest.RESTClient
	folder     string // contains the programs
	audit      *auditLog
	processes  []*program.Process
	controller *rolloutscontroller.Controller
}

// shared is the cluster of all tests; TestMain starts it.
var shared *cluster

func TestMain(m *testing.M) {
	os.Exit(apiserver.RunIn([]string{"gatewayapi-plugin", "rollouts-plugin-kedify", "agent"},
		func(ctx context.Context, folder apiserver.Folder) (code int, err error) {
			for _, name := range []string{
				partVariable, definitionsVariable, "ROLLOUTS_CONTROLLER_BIN", "ROLLOUTS_INSTALL_YAML",
			} {
				if os.Getenv(name) == "" {
					return 1, fmt.Errorf("%s is not set: run `make test-argocd`", name)
				}
			}
			shared = &cluster{folder: folder.Path}
			defer func() { err = errors.Join(err, shared.stop()) }()
			if err := shared.start(ctx, folder); err != nil {
				return 1, err
			}
			if code = m.Run(); code != 0 {
				shared.printLogs()
			}
			return code, nil
		}))
}

// start starts everything.
func (c *cluster) start(ctx context.Context, folder apiserver.Folder) (err error) {
	state := filepath.Join(folder.Path, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		return err
	}
	if c.audit, err = newAuditLog(folder.Path); err != nil {
		return err
	}
	if c.ControlPlane, err = apiserver.Start(ctx, folder.Binaries, state, c.audit.flags()...); err != nil {
		return err
	}
	if c.admin, err = c.Client(apiserver.AdminToken); err != nil {
		return err
	}
	if err := c.install(ctx); err != nil {
		return err
	}
	c.controller, err = rolloutscontroller.Start(c.ControlPlane, os.Getenv("ROLLOUTS_CONTROLLER_BIN"),
		filepath.Join(c.folder, "rollouts"), "--leader-elect=false")
	if err != nil {
		return err
	}
	go rolloutscontroller.NewClusterSimulator(c.admin, map[string]string{"httproutes": "v1"}).Run(ctx)
	return errors.Join(c.startAgent(ctx), c.startArgoCD(ctx))
}

// install applies what users install.
func (c *cluster) install(ctx context.Context) error {
	keda, err := program.ModuleFolder(ctx, "../agent/testdata/keda", "mod", "download", "-json",
		"github.com/kedacore/keda/v2@v2.19.0")
	if err != nil {
		return err
	}
	routes := os.Getenv(definitionsVariable)
	plugins := map[string]string{
		"kedify/http":              filepath.Join(c.folder, "rollouts-plugin-kedify"),
		"argoproj-labs/gatewayAPI": filepath.Join(c.folder, "gatewayapi-plugin"),
	}
	return errors.Join(
		rolloutscontroller.Install(ctx, c.admin, os.Getenv("ROLLOUTS_INSTALL_YAML"), plugins,
			manifests+"argo-rollouts/rbac.yaml", manifests+"argo-rollouts/gatewayapi/rbac.yaml"),
		apiserver.ApplyFiles(ctx, c.admin, "", manifests+"interceptor/namespace.yaml",
			manifests+"crd/http.keda.sh_httpscaledobjects.yaml", manifests+"agent/rbac.yaml",
			filepath.Join(keda, "config/crd/bases/keda.sh_scaledobjects.yaml"),
			filepath.Join(routes, "gateway.networking.k8s.io_httproutes.yaml"),
			filepath.Join(routes, "gateway.networking.k8s.io_referencegrants.yaml"),
			filepath.Join(routes, "gateway.networking.k8s.io_backendtlspolicies.yaml"),
			part("share/crds/application-crd.yaml"), part("share/crds/appproject-crd.yaml"),
			part("share/crds/applicationset-crd.yaml")),
		apiserver.Apply(ctx, c.admin, argoNamespace, settings),
	)
}

// settings are the objects that Argo CD requires, and its permissions.
const settings = `
apiVersion: v1
kind: Namespace
metadata: {name: argocd}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, labels: {app.kubernetes.io/part-of: argocd}}
data:
  # one of the defaults of Argo CD's manifests
  resource.customizations.ignoreResourceUpdates.all: |
    jsonPointers: [/status]
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: of-a-test}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: argocd-application-controller}
rules:
  - {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
  - {nonResourceURLs: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: argocd-application-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: argocd-application-controller}
subjects: [{kind: ServiceAccount, name: argocd-application-controller, namespace: argocd}]
`

// part returns the path of a file of component argo-cd.
func part(name string) string { return filepath.Join(os.Getenv(partVariable), name) }

// startAgent starts the agent without webhook.
func (c *cluster) startAgent(ctx context.Context) error {
	kubeconfig := filepath.Join(c.folder, "kubeconfig-agent")
	if err := c.WriteKubeconfig(kubeconfig, apiserver.AgentToken); err != nil {
		return err
	}
	const free = "127.0.0.1:0"
	return c.run(ctx, "agent", nil, filepath.Join(c.folder, "agent"), "--kubeconfig="+kubeconfig, "--pod-namespace=keda",
		"--scaler-address=keda-add-ons-http-external-scaler.keda:9090", "--webhook-address=", "--health-address="+free,
		"--metrics-address="+free, "--shutdown-delay=0s", "--autowire-cool-down="+coolDown.String(), "--log-format=text",
		"--install-proxies=false")
}

// startArgoCD starts Redis, the repo server and the application controller.
func (c *cluster) startArgoCD(ctx context.Context) error {
	home := filepath.Join(c.folder, "argocd")
	paths := []string{
		"HOME", "TMPDIR", "ARGOCD_TLS_DATA_PATH", "ARGOCD_SSH_DATA_PATH", "ARGOCD_GNUPGHOME",
		"ARGOCD_GPG_DATA_PATH", "ARGOCD_PLUGINSOCKFILEPATH",
	}
	kubeconfig := filepath.Join(c.folder, "kubeconfig-argocd")
	environment := []string{
		"ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false", "KUBECONFIG=" + kubeconfig,
		"PATH=" + home + ":" + os.Getenv("PATH"),
	}
	for _, name := range paths {
		folder := filepath.Join(home, strings.ToLower(name))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		environment = append(environment, name+"="+folder)
	}
	// The repo server runs it for each revision. The component's copy is not executable.
	script, err := os.ReadFile(part("share/git-verify-wrapper.sh"))
	if err := errors.Join(err, os.WriteFile(filepath.Join(home, "git-verify-wrapper.sh"), script, 0o700),
		c.WriteKubeconfig(kubeconfig, apiserver.ArgoCDToken)); err != nil {
		return err
	}
	address := loopback.Address().String()
	redis, repositories := address+":16379", address+":18081"
	return errors.Join(
		c.run(ctx, "redis", environment, part("bin/argo-cd"), "redis", redis),
		c.run(ctx, "repo-server", environment, part("bin/argo-cd"), "repo-server", "--redis="+redis, "--address="+address,
			"--port=18081", "--metrics-address="+address, "--metrics-port=18084", "--disable-tls", "--client-ca-path="),
		c.run(ctx, "application-controller", environment, part("bin/argo-cd"), "application-controller",
			"--kubeconfig="+kubeconfig, "--namespace="+argoNamespace, "--redis="+redis, "--repo-server="+repositories,
			"--repo-server-plaintext", "--metrics-port=0"),
	)
}

// run starts a program with a folder of its own for its log.
func (c *cluster) run(ctx context.Context, name string, environment []string, binary string, args ...string) error {
	folder := filepath.Join(c.folder, "logs", name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	process, err := program.StartWith(ctx, folder, environment, binary, args...)
	if err == nil {
		c.processes = append(c.processes, process)
	}
	return err
}

// stop stops everything that runs.
func (c *cluster) stop() error {
	var err error
	for _, process := range c.processes {
		err = errors.Join(err, process.Kill())
	}
	if c.controller != nil {
		err = errors.Join(err, c.controller.Kill())
	}
	if c.ControlPlane != nil {
		err = errors.Join(err, c.Stop())
	}
	return err
}

// printLogs prints the end of the log of each program.
func (c *cluster) printLogs() {
	const lines = 40
	files, _ := filepath.Glob(filepath.Join(c.folder, "logs", "*", "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(filepath.Clean(file))
		all := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(os.Stderr, "end of %s:\n%s\n", strings.TrimPrefix(file, c.folder),
			strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
}

// mustApply applies manifests.
func mustApply(t *testing.T, namespace string, manifests ...string) {
	t.Helper()
	if err := apiserver.Apply(await.Context(t), shared.admin, namespace, manifests...); err != nil {
		t.Fatal(err)
	}
}
