package certificates

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	httpv1alpha1 "github.com/kedify/argo-rollouts-plugin/api/http/v1alpha1"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// State is the state of the certificate of one object.
type State struct {
	// Secret is the name of the Secret that the object names.
	Secret string
	// IsPending is true until the Secret has been read.
	IsPending bool
	// Problems are the validation errors in display order. Reasons are those of condition TLSReady.
	Problems []model.Problem
	// Expires is the end of the active certificate, zero if there is none.
	Expires time.Time
}

// Resolver determines the active certificate of each host of each fleet. It is not safe for concurrent use. Make it
// with NewResolver.
type Resolver struct {
	secrets map[model.Key]*trackedSecret
	hosts   map[fleetHost]*hostState
	objects map[model.Key]*objectState
	// defaults are the certificates for clients that send no server name.
	defaults map[model.Fleet]*model.Certificate
}

// fleetHost is a host of one fleet.
type fleetHost struct {
	fleet model.Fleet
	host  model.Host
}

// trackedSecret is the state of a Secret that an object names.
type trackedSecret struct {
	secret *Secret // nil until it is read
	valid  *Secret // the last version with a certificate, nil after the Secret is deleted
	hosts  map[fleetHost]struct{}
}

// hostState is the state of a host with at least one object that names a Secret.
type hostState struct {
	claims       []claim   // oldest first
	activeSecret model.Key // the Secret of the active certificate
	active       *model.Certificate
}

// claim is the Secret that one object names for a host.
type claim struct {
	owner, secret model.Key
	created       time.Time
}

// objectState is the state of an object that names a Secret.
type objectState struct {
	secret model.Key
	hosts  map[fleetHost]struct{}
}

// NewResolver returns a Resolver without hosts and Secrets.
func NewResolver() *Resolver {
	return &Resolver{
		secrets: map[model.Key]*trackedSecret{}, hosts: map[fleetHost]*hostState{}, objects: map[model.Key]*objectState{},
		defaults: map[model.Fleet]*model.Certificate{},
	}
}

// SecretOf returns the Secret that an object names, and false if the object names none or an invalid name.
func SecretOf(object *httpv1alpha1.HTTPScaledObject) (model.Key, bool) {
	name := object.Annotations[httpv1alpha1.AnnotationTLSSecretName]
	return model.Key{Namespace: object.Namespace, Name: name}, isName(name)
}

// isName reports whether the name is valid for a Secret.
func isName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// ReferencedSecrets returns the Secrets that Routes of hosts name.
func (r *Resolver) ReferencedSecrets() map[model.Key]struct{} {
	referenced := map[model.Key]struct{}{}
	for key, tracked := range r.secrets {
		if len(tracked.hosts) > 0 && isName(key.Name) {
			referenced[key] = struct{}{}
		}
	}
	return referenced
}

// ResetHosts discards all Routes and active certificates, so that the next Update is complete.
func (r *Resolver) ResetHosts() {
	r.hosts, r.objects = map[fleetHost]*hostState{}, map[model.Key]*objectState{}
	r.defaults = map[model.Fleet]*model.Certificate{}
	for key, tracked := range r.secrets {
		if tracked.hosts = map[fleetHost]struct{}{}; tracked.secret == nil {
			delete(r.secrets, key)
		}
	}
}

// ForFleet returns the active certificates of one fleet, including that of model.NoServerName.
func (r *Resolver) ForFleet(fleet model.Fleet) map[model.Host]*model.Certificate {
	active := map[model.Host]*model.Certificate{}
	if certificate := r.defaults[fleet]; certificate != nil {
		active[model.NoServerName] = certificate
	}
	for at, state := range r.hosts {
		if at.fleet == fleet && state.active != nil {
			active[at.host] = state.active
		}
	}
	return active
}

// Update applies the changed hosts of each fleet and changed Secrets, nil for a Secret of unknown state. It adds the
// changed certificates to updates. The certificate of model.NoServerName is for clients that send no server name; it is
// that of the fleet's oldest object. Update returns the objects with a possible change of State.
func (r *Resolver) Update(updates map[model.Fleet]model.Update, secrets map[model.Key]*Secret) map[model.Key]struct{} {
	touched, objects := map[fleetHost]struct{}{}, map[model.Key]struct{}{}
	for fleet, update := range updates {
		for host, config := range update.Hosts {
			r.setClaims(fleetHost{fleet, host}, config.Routes, touched, objects)
		}
	}
	for key, secret := range secrets {
		r.setSecret(key, secret)
		if tracked := r.secrets[key]; tracked != nil {
			maps.Copy(touched, tracked.hosts)
		}
	}
	fleets := map[model.Fleet]struct{}{}
	for at := range touched {
		fleets[at.fleet] = struct{}{}
		if tracked := r.hosts[at]; tracked != nil {
			for _, current := range tracked.claims {
				objects[current.owner] = struct{}{}
			}
		}
		if certificate, changed := r.selectCertificate(at); changed {
			add(updates, at, certificate)
		}
	}
	oldest := r.oldest(fleets)
	for fleet := range fleets {
		if certificate := oldest[fleet]; !certificate.Equal(r.defaults[fleet]) {
			add(updates, fleetHost{fleet, model.NoServerName}, certificate)
			if r.defaults[fleet] = certificate; certificate == nil {
				delete(r.defaults, fleet)
			}
		}
	}
	return objects
}

// add adds a changed certificate of a host to the update of its fleet.
func add(updates map[model.Fleet]model.Update, at fleetHost, certificate *model.Certificate) {
	update := updates[at.fleet]
	if update.Certificates == nil {
		update.Certificates = map[model.Host]*model.Certificate{}
	}
	update.Certificates[at.host] = certificate
	updates[at.fleet] = update
}

// oldest returns the certificate of the oldest object of each given fleet that has one.
func (r *Resolver) oldest(fleets map[model.Fleet]struct{}) map[model.Fleet]*model.Certificate {
	first, certificates := map[model.Fleet]claim{}, map[model.Fleet]*model.Certificate{}
	for at, state := range r.hosts {
		if _, isAffected := fleets[at.fleet]; !isAffected {
			continue
		}
		for _, current := range state.claims { // oldest first
			valid := r.secrets[current.secret].valid
			if valid == nil {
				continue
			}
			if before, ok := first[at.fleet]; !ok || current.compare(before) < 0 {
				first[at.fleet], certificates[at.fleet] = current, valid.Certificate
			}
			break
		}
	}
	return certificates
}

// compare orders claims by the age of their objects, oldest first.
func (c claim) compare(other claim) int {
	return cmp.Or(c.created.Compare(other.created), c.owner.Compare(other.owner))
}

// setClaims updates the claims of a host from its Routes.
func (r *Resolver) setClaims(
	at fleetHost, routes []model.Route, touched map[fleetHost]struct{}, affected map[model.Key]struct{},
) {
	before := r.hosts[at]
	var claims []claim
	for _, route := range routes {
		isSameOwner := func(current claim) bool { return current.owner == route.Owner }
		if route.Secret != "" && !slices.ContainsFunc(claims, isSameOwner) {
			secret := model.Key{Namespace: route.Owner.Namespace, Name: route.Secret}
			claims = append(claims, claim{route.Owner, secret, route.Created})
		}
	}
	slices.SortFunc(claims, claim.compare)
	if before == nil && len(claims) == 0 || before != nil && slices.Equal(before.claims, claims) {
		return
	}
	if before == nil {
		before = &hostState{}
		r.hosts[at] = before
	}
	touched[at] = struct{}{}
	for _, current := range before.claims {
		r.removeClaim(at, current)
		affected[current.owner] = struct{}{}
	}
	before.claims = claims
	for _, current := range claims {
		r.addClaim(at, current)
	}
}

// addClaim and removeClaim update the references between hosts, Secrets and objects. All previous claims of a host
// are removed before new ones are added.
func (r *Resolver) addClaim(at fleetHost, added claim) {
	if r.secrets[added.secret] == nil {
		r.secrets[added.secret] = &trackedSecret{hosts: map[fleetHost]struct{}{}}
	}
	r.secrets[added.secret].hosts[at] = struct{}{}
	object := r.objects[added.owner]
	if object == nil || object.secret != added.secret {
		object = &objectState{secret: added.secret, hosts: map[fleetHost]struct{}{}}
		r.objects[added.owner] = object
	}
	object.hosts[at] = struct{}{}
}

func (r *Resolver) removeClaim(at fleetHost, removed claim) {
	if tracked := r.secrets[removed.secret]; tracked != nil {
		if delete(tracked.hosts, at); len(tracked.hosts) == 0 && tracked.secret == nil {
			delete(r.secrets, removed.secret)
		}
	}
	if object := r.objects[removed.owner]; object != nil && object.secret == removed.secret {
		if delete(object.hosts, at); len(object.hosts) == 0 {
			delete(r.objects, removed.owner)
		}
	}
}

// setSecret sets the state of a Secret.
func (r *Resolver) setSecret(key model.Key, secret *Secret) {
	tracked := r.secrets[key]
	switch {
	case secret == nil && (tracked == nil || len(tracked.hosts) == 0):
		delete(r.secrets, key)
		return
	case tracked == nil:
		tracked = &trackedSecret{hosts: map[fleetHost]struct{}{}}
		r.secrets[key] = tracked
	}
	tracked.secret = secret
	switch {
	case secret == nil:
	case secret.Certificate != nil:
		tracked.valid = secret
	case secret.Invalid == "" && secret.Unreadable == "":
		tracked.valid = nil // The Secret was deleted.
	}
}

// selectCertificate determines the active certificate of a host and reports whether it changed.
func (r *Resolver) selectCertificate(at fleetHost) (*model.Certificate, bool) {
	state := r.hosts[at]
	before := state.active
	state.activeSecret, state.active = model.Key{}, nil
	for _, current := range state.claims {
		if tracked := r.secrets[current.secret]; tracked.valid != nil {
			state.activeSecret, state.active = current.secret, tracked.valid.Certificate
			break
		}
	}
	if len(state.claims) == 0 {
		delete(r.hosts, at)
	}
	return state.active, !before.Equal(state.active)
}

// State returns the state of one object, nil for an object that names no Secret or has no host. hostsField is the field
// with its hosts, for messages.
func (r *Resolver) State(key model.Key, hostsField string) *State {
	object := r.objects[key]
	if object == nil {
		return nil
	}
	tracked := r.secrets[object.secret]
	state := &State{Secret: object.secret.Name, IsPending: tracked.secret == nil && isName(object.secret.Name)}
	add := func(reason, message string) {
		state.Problems = append(state.Problems, model.Problem{On: key, Reason: reason, Message: message})
	}
	if reason, message := secretProblem(object.secret, tracked.secret, tracked.valid != nil); reason != "" {
		add(reason, message)
	}
	if tracked.valid == nil {
		return state
	}
	state.Expires = tracked.valid.expires()
	overridden, uncovered := r.problemHosts(object, tracked.valid)
	if len(overridden) > 0 {
		add(httpv1alpha1.ReasonCertificateConflict,
			fmt.Sprintf("annotation %s: the certificate of an older object with another Secret is active for %s: name "+
				"the same Secret in both, or change %s", httpv1alpha1.AnnotationTLSSecretName, abbreviate(overridden), hostsField))
	}
	if len(uncovered) > 0 {
		add(httpv1alpha1.ReasonHostNotCovered,
			fmt.Sprintf("Secret %q: the certificate is active but does not cover %s, so clients that verify it reject it: "+
				"renew it with these names, or change %s", object.secret.Name, abbreviate(uncovered), hostsField))
	}
	return state
}

// problemHosts returns the hosts of an object with another object's certificate, and those that its own certificate
// does not cover.
func (r *Resolver) problemHosts(object *objectState, valid *Secret) (overridden, uncovered []string) {
	for at := range object.hosts {
		switch state := r.hosts[at]; {
		case state.activeSecret != object.secret:
			overridden = append(overridden, string(at.host))
		case !valid.covers(at.host):
			uncovered = append(uncovered, string(at.host))
		}
	}
	return overridden, uncovered
}

// secretProblem returns the problem of a Secret, "" for none. hasValid is true if a certificate of the Secret is
// active.
func secretProblem(key model.Key, secret *Secret, hasValid bool) (reason, message string) {
	const annotation = "annotation " + httpv1alpha1.AnnotationTLSSecretName
	effect := "no certificate of it is active"
	if hasValid {
		effect = "its last valid certificate stays active"
	}
	switch {
	case !isName(key.Name):
		return httpv1alpha1.ReasonInvalidSecretName, fmt.Sprintf("%s: %.80q is not a Secret name: use the name of a "+
			"Secret in namespace %q (lower-case letters, digits, "+
			"hyphens and dots)", annotation, key.Name, key.Namespace)
	case secret == nil || secret.Certificate != nil:
		return "", ""
	case secret.Unreadable != "":
		return httpv1alpha1.ReasonSecretUnreadable, fmt.Sprintf("%s: Secret %q cannot be read, so %s: %s", annotation,
			key.Name, effect, secret.Unreadable)
	case secret.Invalid != "":
		return httpv1alpha1.ReasonInvalidSecret, fmt.Sprintf("%s: Secret %q: %s (until then %s)", annotation, key.Name,
			secret.Invalid, effect)
	default:
		return httpv1alpha1.ReasonSecretNotFound,
			fmt.Sprintf("%s: Secret %q not found in namespace %q: create it or name another Secret of the namespace",
				annotation, key.Name, key.Namespace)
	}
}

// abbreviate formats at most three hosts for a message.
func abbreviate(hosts []string) string {
	const limit = 3
	slices.Sort(hosts)
	text := strings.Join(hosts[:min(limit, len(hosts))], ", ")
	if more := len(hosts) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
