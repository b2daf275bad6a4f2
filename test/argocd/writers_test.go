package argocd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model/split"
)

// The names of writers in timelines.
const (
	argoCD   = "argocd-controller"
	rollouts = "rollouts" // the Argo Rollouts controller with its plugins
	// agentName is the agent's.
	agentName = "kedify-http-agent"
)

// auditPolicy logs what is written to the objects that Git and others change.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [create, update, patch]
  resources:
  - {group: "", resources: [services, configmaps]}
  - {group: gateway.networking.k8s.io, resources: [httproutes]}
  - {group: networking.k8s.io, resources: [ingresses]}
  - {group: http.keda.sh, resources: [httpscaledobjects]}
  - {group: keda.sh, resources: [scaledobjects]}
- {level: None}
`

// auditLog reads the audit log of the API server.
type auditLog struct {
	policy, log string

	mu       sync.Mutex
	offset   int64
	writes   []write
	versions map[string]string // the last resource version of each object
}

// write is a request that has changed an object.
type write struct {
	at                        time.Time
	writer                    string
	namespace, resource, name string
	state                     string // the fields that canaries and the agent change
}

// auditEvent is a line of the audit log.
type auditEvent struct {
	Verb, RequestURI         string
	User                     struct{ Username string }
	ObjectRef                struct{ Resource, Namespace, Name string }
	ResponseStatus           struct{ Code int }
	ResponseObject           object
	RequestReceivedTimestamp time.Time
}

// object has the fields that these tests read.
type object struct {
	Metadata struct {
		Name, ResourceVersion string
		Annotations           map[string]string
	}
	Data map[string]string
	Spec struct {
		Hostnames      []string
		Selector       map[string]string
		DefaultBackend *ingressBackend
		Triggers       []struct{ Type string }
		Rules          []struct {
			Name        string
			BackendRefs []struct {
				Name   string
				Weight *int
			}
			HTTP struct {
				Paths []struct{ Backend ingressBackend }
			}
		}
	}
}

type ingressBackend struct{ Service struct{ Name string } }

// newAuditLog prepares the audit log in folder.
func newAuditLog(folder string) (*auditLog, error) {
	a := &auditLog{
		policy: filepath.Join(folder, "policy.yaml"), log: filepath.Join(folder, "audit.log"), versions: map[string]string{},
	}
	return a, os.WriteFile(a.policy, []byte(auditPolicy), 0o600)
}

// flags returns the flags of the API server.
func (a *auditLog) flags() []string {
	return []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.log}
}

// of returns the writes of a namespace so far.
func (a *auditLog) of(t *testing.T, namespace string) []write {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(); err != nil {
		t.Fatal(err)
	}
	var found []write
	for _, w := range a.writes {
		if w.namespace == namespace {
			found = append(found, w)
		}
	}
	return found
}

// read reads the lines that were added since the last call.
func (a *auditLog) read() error {
	file, err := os.Open(a.log)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return err
	}
	added, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(added) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		a.offset += int64(len(line))
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("audit log: %w in %s", err, line)
		}
		a.add(event)
	}
	return nil
}

// add adds the write of an event, unless nothing was stored.
func (a *auditLog) add(event auditEvent) {
	const badRequest = 400
	if strings.Contains(event.RequestURI, "dryRun=") || event.ResponseStatus.Code >= badRequest {
		return
	}
	ref, stored := event.ObjectRef, event.ResponseObject
	name := stored.Metadata.Name
	key := ref.Namespace + "/" + ref.Resource + "/" + name
	if a.versions[key] == stored.Metadata.ResourceVersion {
		return
	}
	a.versions[key] = stored.Metadata.ResourceVersion
	a.writes = append(a.writes, write{
		at: event.RequestReceivedTimestamp, writer: writerOf(event.User.Username), namespace: ref.Namespace,
		resource: ref.Resource, name: name, state: stored.state(ref.Resource),
	})
}

// writerOf returns the name of a user in timelines.
func writerOf(user string) string {
	name := user[strings.LastIndexByte(user, ':')+1:]
	switch name {
	case "argocd-application-controller":
		return argoCD
	case "argo-rollouts":
		return rollouts
	}
	return name
}

// state returns the fields that a canary or the agent changes.
func (o object) state(resource string) string {
	switch resource {
	case "services":
		return "hash " + cmp.Or(o.Spec.Selector["rollouts-pod-template-hash"], "none")
	case "httpscaledobjects":
		return weights(o.Metadata.Annotations[httpv1alpha1.AnnotationWeightedBackends])
	case "scaledobjects":
		types := make([]string, 0, len(o.Spec.Triggers))
		for _, trigger := range o.Spec.Triggers {
			types = append(types, trigger.Type)
		}
		return strings.Join(types, " ")
	case "httproutes":
		return o.routed()
	case "ingresses":
		var backends []string
		for _, rule := range o.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				backends = append(backends, path.Backend.Service.Name)
			}
		}
		return strings.Join(backends, " ")
	default:
		return fmt.Sprint(o.Data)
	}
}

// routed returns the backends of each rule of an HTTPRoute with their weights: "[qa] shop-canary=1, …".
func (o object) routed() string {
	var rules []string
	for _, rule := range o.Spec.Rules {
		var backends []string
		for _, backend := range rule.BackendRefs {
			weight := 1
			if backend.Weight != nil {
				weight = *backend.Weight
			}
			backends = append(backends, fmt.Sprintf("%s=%d", backend.Name, weight))
		}
		rules = append(rules, strings.TrimSpace("["+rule.Name+"] "+strings.Join(backends, "/")))
	}
	return strings.Join(rules, ", ")
}

// weights formats an annotation with weights like a rule of an HTTPRoute.
func weights(annotation string) string {
	if annotation == "" {
		return "no weights"
	}
	backends, err := split.Parse(annotation)
	if err != nil {
		return err.Error()
	}
	parts := make([]string, 0, len(backends))
	for _, backend := range backends {
		parts = append(parts, fmt.Sprintf("%s=%d", backend.Service, backend.Weight))
	}
	return strings.Join(parts, "/")
}

// timeline formats writes with their seconds since the first one.
func timeline(writes []write) string {
	var text strings.Builder
	for _, w := range writes {
		fmt.Fprintf(&text, "%7.2f s  %-18s %s/%s: %s\n", w.at.Sub(writes[0].at).Seconds(), w.writer, w.resource, w.name,
			w.state)
	}
	return text.String()
}
