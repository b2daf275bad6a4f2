// Package events creates Kubernetes Events. An [Event] has two forms: that of events.k8s.io/v1, and that of the older
// core API for programs whose ServiceAccount is only allowed to create the latter, such as the Argo Rollouts
// controller's.
package events

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kedify/argo-rollouts-plugin/internal/kube"
	"github.com/kedify/argo-rollouts-plugin/internal/kube/truncate"
)

// DocumentationURL is the address of the folder docs of this repository.
const DocumentationURL = "https://github.com/kedify/argo-rollouts-plugin/blob/main/docs/"

// FindingsPage is the address of docs/reference/findings.md, which explains findings of doctor and reasons of Warning
// Events. Each has an anchor of its name in lower case.
const FindingsPage = DocumentationURL + "reference/findings.md"

// Limits of events.k8s.io/v1 in bytes (k8s.io/kubernetes, pkg/apis/core/validation/events.go), and of the part of an
// Event's name that comes from its object.
const (
	maxNote       = 1024
	maxInstance   = 128
	maxNamePrefix = 200
)

// Event is an occurrence that concerns an object.
type Event struct {
	// Object is the object that the Event is about. The Event is in the namespace of the object.
	Object corev1.ObjectReference
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is the machine-readable cause, in CamelCase.
	Reason string
	// Note is the description for users.
	Note string
	// Controller is the name of the program that reports the Event. In events.k8s.io/v1 it has to be a qualified name
	// such as kedify.io/http-interceptor.
	Controller string

	// Action is what the program did when the Event occurred. Only events.k8s.io/v1 has it.
	Action string
	// Instance is the name of the replica that reports the Event. Only events.k8s.io/v1 has it.
	Instance string
	// Since is when the occurrence began. Events of one object with the same Since, Reason and Note have the same name
	// in events.k8s.io/v1. So an occurrence that two replicas report, or one replica reports twice, is one Event.
	Since time.Time
}

// V1 returns the Event in the form of events.k8s.io/v1, its texts cut to the limits of that API.
func (e Event) V1() *eventsv1.Event {
	digest := fnv.New64a()
	_, _ = fmt.Fprintf(digest, "%s\n%d\n%s\n%s", e.Object.UID, e.Since.Unix(), e.Reason, e.Note)
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Object.Namespace,
			Name:      fmt.Sprintf("%s.%016x", truncate.Text(e.Object.Name, maxNamePrefix), digest.Sum64()),
		},
		EventTime:           metav1.NowMicro(),
		ReportingController: e.Controller,
		ReportingInstance:   truncate.Text(e.Instance, maxInstance),
		Action:              e.Action,
		Reason:              e.Reason,
		Note:                truncate.Text(e.Note, maxNote),
		Type:                e.Type,
		Regarding:           e.Object,
	}
}

// Core returns the Event in the form of the core API. The API server generates its name.
func (e Event) Core() *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: e.Object.Namespace, GenerateName: e.Object.Name + "-"},
		InvolvedObject: e.Object,
		Reason:         e.Reason, Message: e.Note, Type: e.Type,
		Source: corev1.EventSource{Component: e.Controller}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

// Create creates an Event through a REST client of events.k8s.io/v1. An Event of the same name that already exists is
// not an error.
func Create(ctx context.Context, client rest.Interface, event *eventsv1.Event) error {
	err := client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// CreateCore creates an Event through the core API.
func CreateCore(ctx context.Context, client *kube.Client, event *corev1.Event) error {
	return client.Create(ctx, event, "api", "v1", "namespaces", event.Namespace, "events")
}
