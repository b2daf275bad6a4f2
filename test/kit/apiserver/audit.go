package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// auditPolicy logs every request of a ServiceAccount once, and no other requests.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// AuditLog is the audit log of an API server. It contains the requests of ServiceAccounts, each when it was answered.
type AuditLog struct{ policy, log string }

// AuditEvent is one request.
type AuditEvent struct {
	// Stage is ResponseComplete; for a watch, ResponseStarted comes before.
	Stage string
	// Verb is the verb of the request, such as get, list, watch, create, update and patch.
	Verb string
	// User sent the request.
	User struct{ Username string }
	// RequestURI is the path and query.
	RequestURI string
	// ObjectRef is the object or collection; empty for paths without a resource.
	ObjectRef struct{ Resource, APIGroup, Subresource, Namespace, Name string }
	// ResponseStatus has no code while a watch is open.
	ResponseStatus struct{ Code int }
	// RequestReceivedTimestamp is when the API server received the request, and StageTimestamp when the request reached
	// Stage. Both have microseconds.
	RequestReceivedTimestamp, StageTimestamp time.Time
}

// NewAuditLog prepares an AuditLog in folder.
func NewAuditLog(folder string) (AuditLog, error) {
	audit := AuditLog{policy: filepath.Join(folder, "policy.yaml"), log: filepath.Join(folder, "audit.log")}
	return audit, os.WriteFile(audit.policy, []byte(auditPolicy), 0o600)
}

// Flags returns the flags for Start.
func (a AuditLog) Flags() []string {
	return []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.log}
}

// RequestsOf returns the requests of a user so far.
func (a AuditLog) RequestsOf(user string) ([]AuditEvent, error) {
	log, err := os.ReadFile(a.log)
	if err != nil {
		return nil, err
	}
	var events []AuditEvent
	for line := range bytes.Lines(log) {
		var event AuditEvent
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		if !bytes.Contains(line, []byte(user)) {
			continue // most requests are of other users
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("audit log: %w in %s", err, line)
		}
		if event.User.Username == user {
			events = append(events, event)
		}
	}
	return events, nil
}
