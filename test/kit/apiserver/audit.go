package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// auditPolicy has every request of a ServiceAccount written down once, and those of no one else.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// AuditLog is what an API server writes down of the requests of ServiceAccounts: each when it has been answered.
type AuditLog struct{ policy, log string }

// AuditEvent is one request.
type AuditEvent struct {
	// Stage is ResponseComplete; for a watch, ResponseStarted comes before.
	Stage string
	// Verb is what was done, such as get, list, watch, create, update and patch.
	Verb string
	// User made the request.
	User struct{ Username string }
	// RequestURI is its path and query.
	RequestURI string
	// ObjectRef is what it was about; empty for paths that are not those of resources.
	ObjectRef struct{ Resource, APIGroup, Subresource, Namespace, Name string }
	// ResponseStatus has no code while a watch is open.
	ResponseStatus struct{ Code int }
	// RequestReceivedTimestamp is when the API server received it, and StageTimestamp when it reached Stage. Both are in microseconds.
	RequestReceivedTimestamp, StageTimestamp time.Time
}

// NewAuditLog prepares an AuditLog in folder.
func NewAuditLog(folder string) (AuditLog, error) {
	audit := AuditLog{policy: filepath.Join(folder, "policy.yaml"), log: filepath.Join(folder, "audit.log")}
	return audit, os.WriteFile(audit.policy, []byte(auditPolicy), 0o600)
}

// Flags are for Start.
func (a AuditLog) Flags() []string {
	return []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.log}
}

// RequestsOf reads what a user has asked so far.
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
			continue // most are others'
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
