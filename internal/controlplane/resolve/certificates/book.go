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

// State is what became of the certificate of one object.
type State struct {
	// Secret is the name of the Secret that the object names.
	Secret string
	// IsPending says that the Secret was not read yet.
	IsPending bool
	// Problems are what is wrong, in the order in which it should be read. Reasons are those of condition TLSReady.
	Problems []model.Problem
	// Expires is when the certificate in force ends, zero where there is none.
	Expires time.Time
}

// Book knows which certificate is in force for each host of each fleet. It is not safe for concurrent use. Make it with NewBook.
type Book struct {
	secrets map[model.Key]*known
	sites   map[site]*hostState
	objects map[model.Key]*objectState
	// nameless is what clients that name no host get, by fleet.
	nameless map[model.Fleet]*model.Certificate
}

// site is a host in one fleet.
type site struct {
	fleet model.Fleet
	host  model.Host
}

// known is what is known of a Secret that an object names.
type known struct {
	secret *Secret // nil when it was not read yet
	good   *Secret // the last one with a certificate, until it is deleted
	sites  map[site]struct{}
}

// hostState is a host of which an object names a Secret.
type hostState struct {
	claims  []claim // the oldest first
	secret  model.Key  // whose certificate is in force
	inForce *model.Certificate
}

// claim is the Secret that one object names.
type claim struct {
	owner, secret model.Key
	created       time.Time
}

// objectState is an object that names a Secret.
type objectState struct {
	secret model.Key
	sites  map[site]struct{}
}

// NewBook returns a Book that knows nothing.
func NewBook() *Book {
	return &Book{
		secrets: map[model.Key]*known{}, sites: map[site]*hostState{}, objects: map[model.Key]*objectState{},
		nameless: map[model.Fleet]*model.Certificate{},
	}
}

// SecretOf is the Secret that an object names, and false where it names none that can be there.
func SecretOf(object *httpv1alpha1.HTTPScaledObject) (model.Key, bool) {
	name := object.Annotations[httpv1alpha1.AnnotationTLSSecretName]
	return model.Key{Namespace: object.Namespace, Name: name}, isName(name)
}

// isName says whether a Secret can have the name.
func isName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// Wanted are the Secrets that the Routes of hosts name, in no order.
func (b *Book) Wanted() map[model.Key]struct{} {
	wanted := map[model.Key]struct{}{}
	for key, is := range b.secrets {
		if len(is.sites) > 0 && isName(key.Name) {
			wanted[key] = struct{}{}
		}
	}
	return wanted
}

// ForgetHosts forgets all Routes, and with them what is in force: the next Update tells all of it anew.
func (b *Book) ForgetHosts() {
	b.sites, b.objects, b.nameless = map[site]*hostState{}, map[model.Key]*objectState{}, map[model.Fleet]*model.Certificate{}
	for key, is := range b.secrets {
		if is.sites = map[site]struct{}{}; is.secret == nil {
			delete(b.secrets, key)
		}
	}
}

// OfFleet are the certificates in force of one fleet, that of ir.Nameless among them.
func (b *Book) OfFleet(fleet model.Fleet) map[model.Host]*model.Certificate {
	inForce := map[model.Host]*model.Certificate{}
	if certificate := b.nameless[fleet]; certificate != nil {
		inForce[model.NoServerName] = certificate
	}
	for at, is := range b.sites {
		if at.fleet == fleet && is.inForce != nil {
			inForce[at.host] = is.inForce
		}
	}
	return inForce
}

// Update takes note of the hosts that are new in each fleet, and of Secrets, nil for one of which nothing is known any more. It adds the certificates that are
// new to updates. That of ir.Nameless is for clients that name no host: the one that the oldest object of the fleet has. It returns the objects of which State
// may say something else than before.
func (b *Book) Update(updates map[model.Fleet]model.Update, secrets map[model.Key]*Secret) map[model.Key]struct{} {
	touched, objects := map[site]struct{}{}, map[model.Key]struct{}{}
	for fleet, update := range updates {
		for host, config := range update.Hosts {
			b.claim(site{fleet, host}, config.Routes, touched, objects)
		}
	}
	for key, secret := range secrets {
		b.put(key, secret)
		if is := b.secrets[key]; is != nil {
			maps.Copy(touched, is.sites)
		}
	}
	fleets := map[model.Fleet]struct{}{}
	for at := range touched {
		fleets[at.fleet] = struct{}{}
		if is := b.sites[at]; is != nil {
			for _, each := range is.claims {
				objects[each.owner] = struct{}{}
			}
		}
		if certificate, changed := b.decide(at); changed {
			add(updates, at, certificate)
		}
	}
	oldest := b.oldest(fleets)
	for fleet := range fleets {
		if certificate := oldest[fleet]; !certificate.Equal(b.nameless[fleet]) {
			add(updates, site{fleet, model.NoServerName}, certificate)
			if b.nameless[fleet] = certificate; certificate == nil {
				delete(b.nameless, fleet)
			}
		}
	}
	return objects
}

// add adds the new certificate of a host to what is new in its fleet.
func add(updates map[model.Fleet]model.Update, at site, certificate *model.Certificate) {
	update := updates[at.fleet]
	if update.Certificates == nil {
		update.Certificates = map[model.Host]*model.Certificate{}
	}
	update.Certificates[at.host] = certificate
	updates[at.fleet] = update
}

// oldest are the certificates of the oldest objects of fleets, of those that have one.
func (b *Book) oldest(fleets map[model.Fleet]struct{}) map[model.Fleet]*model.Certificate {
	first, found := map[model.Fleet]claim{}, map[model.Fleet]*model.Certificate{}
	for at, is := range b.sites {
		if _, isAsked := fleets[at.fleet]; !isAsked {
			continue
		}
		for _, each := range is.claims { // the oldest first
			good := b.secrets[each.secret].good
			if good == nil {
				continue
			}
			if before, has := first[at.fleet]; !has || each.compare(before) < 0 {
				first[at.fleet], found[at.fleet] = each, good.Certificate
			}
			break
		}
	}
	return found
}

// compare puts the claim of the older object first.
func (c claim) compare(other claim) int {
	return cmp.Or(c.created.Compare(other.created), c.owner.Compare(other.owner))
}

// claim sets the Routes of a host.
func (b *Book) claim(at site, routes []model.Route, touched map[site]struct{}, looked map[model.Key]struct{}) {
	before := b.sites[at]
	var claims []claim
	for _, route := range routes {
		same := func(each claim) bool { return each.owner == route.Owner }
		if route.Secret != "" && !slices.ContainsFunc(claims, same) {
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
		b.sites[at] = before
	}
	touched[at] = struct{}{}
	for _, each := range before.claims {
		b.leave(at, each)
		looked[each.owner] = struct{}{}
	}
	before.claims = claims
	for _, each := range claims {
		b.join(at, each)
	}
}

// join and leave keep account of who has to do with a host. All that have are made to leave before others join.
func (b *Book) join(at site, of claim) {
	if b.secrets[of.secret] == nil {
		b.secrets[of.secret] = &known{sites: map[site]struct{}{}}
	}
	b.secrets[of.secret].sites[at] = struct{}{}
	object := b.objects[of.owner]
	if object == nil || object.secret != of.secret {
		object = &objectState{secret: of.secret, sites: map[site]struct{}{}}
		b.objects[of.owner] = object
	}
	object.sites[at] = struct{}{}
}

func (b *Book) leave(at site, of claim) {
	if is := b.secrets[of.secret]; is != nil {
		if delete(is.sites, at); len(is.sites) == 0 && is.secret == nil {
			delete(b.secrets, of.secret)
		}
	}
	if object := b.objects[of.owner]; object != nil && object.secret == of.secret {
		if delete(object.sites, at); len(object.sites) == 0 {
			delete(b.objects, of.owner)
		}
	}
}

// put sets what is known of a Secret.
func (b *Book) put(key model.Key, secret *Secret) {
	is := b.secrets[key]
	switch {
	case secret == nil && (is == nil || len(is.sites) == 0):
		delete(b.secrets, key)
		return
	case is == nil:
		is = &known{sites: map[site]struct{}{}}
		b.secrets[key] = is
	}
	is.secret = secret
	switch {
	case secret == nil:
	case secret.Certificate != nil:
		is.good = secret
	case secret.Wrong == "" && secret.Unreadable == "":
		is.good = nil // It was deleted.
	}
}

// decide finds the certificate of a host, and says whether it is another one than before.
func (b *Book) decide(at site) (*model.Certificate, bool) {
	is := b.sites[at]
	before := is.inForce
	is.secret, is.inForce = model.Key{}, nil
	for _, each := range is.claims {
		if found := b.secrets[each.secret]; found.good != nil {
			is.secret, is.inForce = each.secret, found.good.Certificate
			break
		}
	}
	if len(is.claims) == 0 {
		delete(b.sites, at)
	}
	return is.inForce, !before.Equal(is.inForce)
}

// State is that of one object, nil for one that names no Secret or has no host.
func (b *Book) State(key model.Key) *State {
	object := b.objects[key]
	if object == nil {
		return nil
	}
	found := b.secrets[object.secret]
	state := &State{Secret: object.secret.Name, IsPending: found.secret == nil && isName(object.secret.Name)}
	add := func(reason, message string) {
		state.Problems = append(state.Problems, model.Problem{On: key, Reason: reason, Message: message})
	}
	if reason, message := wrongWith(object.secret, found.secret, found.good != nil); reason != "" {
		add(reason, message)
	}
	if found.good == nil {
		return state
	}
	state.Expires = found.good.expires()
	taken, bare := b.hostsOf(object, found.good)
	if len(taken) > 0 {
		add(httpv1alpha1.ReasonHostTaken, fmt.Sprintf("annotation %s: an older HTTPScaledObject names another Secret for the same host, and its certificate is in force: %s; "+
			"name the same Secret in both, or change spec.hosts", httpv1alpha1.AnnotationTLSSecretName, shown(taken)))
	}
	if len(bare) > 0 {
		add(httpv1alpha1.ReasonHostNotCovered, fmt.Sprintf("Secret %q: the certificate is not for %s, and clients that check it will refuse it; it is used all the same. "+
			"Renew it with these names, or change spec.hosts", object.secret.Name, shown(bare)))
	}
	return state
}

// hostsOf lists the hosts of an object that have another one's certificate, and those that its certificate is not for.
func (b *Book) hostsOf(object *objectState, good *Secret) (taken, bare []string) {
	for at := range object.sites {
		switch is := b.sites[at]; {
		case is.secret != object.secret:
			taken = append(taken, string(at.host))
		case !good.covers(at.host):
			bare = append(bare, string(at.host))
		}
	}
	return taken, bare
}

// wrongWith says what is wrong with a Secret, "" for nothing. hasGood says that a certificate of it is in force.
func wrongWith(key model.Key, secret *Secret, hasGood bool) (reason, message string) {
	const annotation = "annotation " + httpv1alpha1.AnnotationTLSSecretName
	kept := "no TLS is answered with it"
	if hasGood {
		kept = "its last good certificate stays in force"
	}
	switch {
	case !isName(key.Name):
		return httpv1alpha1.ReasonInvalidSecretName, fmt.Sprintf("%s: %.80q cannot be the name of a Secret; use the name of one of namespace %q: lower-case letters, digits, "+
			"hyphens and dots", annotation, key.Name, key.Namespace)
	case secret == nil || secret.Certificate != nil:
		return "", ""
	case secret.Unreadable != "":
		return httpv1alpha1.ReasonSecretUnreadable, fmt.Sprintf("%s: Secret %q cannot be read, so %s: %s", annotation, key.Name, kept, secret.Unreadable)
	case secret.Wrong != "":
		return httpv1alpha1.ReasonInvalidSecret, fmt.Sprintf("Secret %q, which %s names: %s; until then %s", key.Name, annotation, secret.Wrong, kept)
	default:
		return httpv1alpha1.ReasonSecretNotFound, fmt.Sprintf("%s: there is no Secret %q in namespace %q; create it or name another of this namespace",
			annotation, key.Name, key.Namespace)
	}
}

// shown names at most three of some hosts.
func shown(hosts []string) string {
	const limit = 3
	slices.Sort(hosts)
	text := strings.Join(hosts[:min(limit, len(hosts))], ", ")
	if more := len(hosts) - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
