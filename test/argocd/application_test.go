package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kedify/argo-rollouts-plugin/test/kit/apiserver"
	"github.com/kedify/argo-rollouts-plugin/test/kit/await"
)

// pollInterval is the time between two reads of the API server.
const pollInterval = 100 * time.Millisecond

// mode is how Argo CD writes and compares.
type mode string

// The modes.
const (
	clientSide     mode = "csa" // Argo CD's default
	serverSide     mode = "ssa" // ServerSideApply=true
	serverSideDiff mode = "ssd" // ServerSideDiff=true in addition
)

// recipe is a block of a page, or a recipe of the tests.
type recipe struct {
	IgnoreDifferences []map[string]any `json:"ignoreDifferences"`
	SyncPolicy        struct {
		SyncOptions []string `json:"syncOptions"`
	} `json:"syncPolicy"`
}

// The recipes on the pages.
const (
	routeRecipe     = "how-to/gateway-api-gitops.md#argocd"
	unnamedRecipe   = "how-to/gateway-api-gitops.md#argocd-unnamed"
	selectorsRecipe = "how-to/gitops.md#argocd-selectors"
	ingressRecipe   = "how-to/autowire.md#argocd"
	wiredRecipe     = "how-to/autowire.md#argocd-httproute"
	triggerRecipe   = "reference/agent.md#argocd"
)

// readRecipe returns the block with the mark after # in a page below docs.
func readRecipe(t *testing.T, name string) (parsed recipe) {
	t.Helper()
	page, mark, _ := strings.Cut(name, "#")
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml " + mark + "\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("docs/%s has no block: yaml %s", page, mark)
	}
	if err := yaml.UnmarshalStrict(block[1], &parsed); err != nil {
		t.Fatalf("docs/%s, block %s: %v", page, mark, err)
	}
	return parsed
}

// byLabel is the recipe that the argoproj-labs plugin documents.
func byLabel(*testing.T) recipe {
	return recipe{IgnoreDifferences: []map[string]any{{
		"group": "gateway.networking.k8s.io", "kind": "HTTPRoute",
		"jqPathExpressions": []string{
			`select(.metadata.labels["rollouts.argoproj.io/gatewayapi-canary"] == "in-progress") | .spec.rules`,
		},
	}}}
}

// withoutOutOfSyncOnly removes ApplyOutOfSyncOnly=true.
func (r recipe) withoutOutOfSyncOnly() recipe {
	r.SyncPolicy.SyncOptions = slices.DeleteFunc(slices.Clone(r.SyncPolicy.SyncOptions),
		func(option string) bool { return option == "ApplyOutOfSyncOnly=true" })
	return r
}

// application is an Application with a repository of its own, in the namespace of its name.
type application struct {
	t          *testing.T
	name       string
	repository string
}

// newApplication creates the repository with files, and the Application.
func newApplication(t *testing.T, name string, how mode, recipes []recipe, files map[string]string) *application {
	t.Helper()
	a := &application{t: t, name: name, repository: filepath.Join(t.TempDir(), "repository")}
	if err := os.Mkdir(a.repository, 0o700); err != nil {
		t.Fatal(err)
	}
	a.git("init", "--quiet", "--initial-branch=main")
	a.commit("the first version", files)
	options := []string{"CreateNamespace=true"}
	annotations := map[string]string{}
	if how != clientSide {
		options = append(options, "ServerSideApply=true")
	}
	if how == serverSideDiff {
		annotations["argocd.argoproj.io/compare-options"] = "ServerSideDiff=true"
	}
	ignored := []map[string]any{}
	for _, r := range recipes {
		ignored = append(ignored, r.IgnoreDifferences...)
		options = append(options, r.SyncPolicy.SyncOptions...)
	}
	slices.Sort(options)
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"name": name, "annotations": annotations},
		"spec": map[string]any{
			"project":           "default",
			"source":            map[string]any{"repoURL": "file://" + a.repository, "path": ".", "targetRevision": "main"},
			"destination":       map[string]any{"server": "https://kubernetes.default.svc", "namespace": name},
			"ignoreDifferences": ignored,
			"syncPolicy": map[string]any{
				"automated": map[string]any{"prune": true, "selfHeal": true}, "syncOptions": slices.Compact(options),
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, argoNamespace, string(manifest))
	t.Cleanup(func() {
		if t.Failed() {
			a.logState()
		}
		// Until the others have ended, it would use the controllers.
		_ = shared.admin.Delete().AbsPath(a.path()).Do(context.WithoutCancel(t.Context())).Error()
	})
	return a
}

// git runs git in the repository.
func (a *application) git(args ...string) {
	a.t.Helper()
	command := exec.CommandContext(a.t.Context(), "git", append([]string{
		"-C", a.repository, "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false",
	}, args...)...)
	if out, err := command.CombinedOutput(); err != nil {
		a.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// commit writes files and commits them.
func (a *application) commit(message string, files map[string]string) {
	a.t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(a.repository, name), []byte(text), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	a.git("add", "--all")
	a.git("commit", "--quiet", "--message", message)
}

// path returns the path of the Application.
func (a *application) path() string {
	return "/apis/argoproj.io/v1alpha1/namespaces/" + argoNamespace + "/applications/" + a.name
}

// applicationState is the part of an Application that the tests read.
type applicationState struct {
	Metadata  struct{ Annotations map[string]string }
	Operation *struct{}
	Status    struct {
		Sync struct {
			Status, Revision string
		}
		OperationState *struct{ Phase, Message string }
		Conditions     []struct{ Type, Message string }
		Resources      []struct{ Kind, Name, Status string }
	}
}

// text describes the state.
func (s applicationState) text() string {
	var different []string
	for _, r := range s.Status.Resources {
		if r.Status != "Synced" {
			different = append(different, r.Kind+"/"+r.Name+" "+r.Status)
		}
	}
	operation := ""
	if o := s.Status.OperationState; o != nil {
		operation = o.Phase + " " + o.Message
	}
	return fmt.Sprintf("%s %v, operation %s, conditions %v", s.Status.Sync.Status, different, operation,
		s.Status.Conditions)
}

// isIdle reports whether no sync runs or is requested, and the last comparison was requested by refresh.
func (s applicationState) isIdle() bool {
	_, isRefreshing := s.Metadata.Annotations["argocd.argoproj.io/refresh"]
	o := s.Status.OperationState
	return !isRefreshing && s.Operation == nil && (o == nil || o.Phase != "Running")
}

// read reads the Application.
func (a *application) read() (state applicationState) {
	a.t.Helper()
	if err := apiserver.Get(a.t.Context(), shared.admin, a.path(), &state); err != nil {
		a.t.Fatal(err)
	}
	return state
}

// refresh makes Argo CD compare the objects with the newest commit, and waits until it has decided whether to sync.
func (a *application) refresh() {
	a.t.Helper()
	a.merge(a.path(), `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`)
	a.await("Argo CD has compared", func() (bool, string) {
		state := a.read()
		_, isRefreshing := state.Metadata.Annotations["argocd.argoproj.io/refresh"]
		return !isRefreshing, state.text()
	})
}

// synced makes Argo CD compare twice, with the result that nothing is to be written. The second time, everything that
// was written before the first one is in its cache.
func (a *application) synced() {
	a.t.Helper()
	for range 2 {
		a.refresh()
		a.await("Synced", func() (bool, string) {
			state := a.read()
			return state.isIdle() && state.Status.Sync.Status == "Synced", state.text()
		})
	}
}

// merge merges a patch into an object.
func (a *application) merge(path, patch string) {
	a.t.Helper()
	err := shared.admin.Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(a.t.Context()).Error()
	if err != nil {
		a.t.Fatalf("%s: %s: %v", path, patch, err)
	}
}

// await waits until ready returns true; the text describes what it has seen.
func (a *application) await(what string, ready func() (bool, string)) {
	a.t.Helper()
	isReady, seen, next := false, "", time.Time{}
	await.Described(a.t, a.name+": "+what, func() bool {
		if time.Now().After(next) {
			isReady, seen = ready()
			next = time.Now().Add(pollInterval)
		}
		return isReady
	}, func() string { return seen + "\n" + timeline(shared.audit.of(a.t, a.name)) })
}

// get reads an object in the namespace; the path is below the namespace. It reports whether the object exists.
func (a *application) get(api, path string, target any) bool {
	a.t.Helper()
	err := apiserver.Get(a.t.Context(), shared.admin, api+"/namespaces/"+a.name+"/"+path, target)
	if err != nil && !apierrors.IsNotFound(err) {
		a.t.Fatal(err)
	}
	return err == nil
}

// writes returns the writes in the namespace so far.
func (a *application) writes() []write {
	a.t.Helper()
	return shared.audit.of(a.t, a.name)
}

// logState logs the Application and the controller's log.
func (a *application) logState() {
	var state json.RawMessage
	_ = apiserver.Get(context.WithoutCancel(a.t.Context()), shared.admin, a.path(), &state)
	lines, _ := shared.controller.LogLines(a.name, 15)
	a.t.Logf("Application: %.3000s\nend of the log of the Argo Rollouts controller:\n%s", state, lines)
}
