package ingest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// settingsRemedy is what to do where the interceptor may not read the ConfigMaps with settings of Envoy.
const settingsRemedy = "bind ClusterRole kedify-http-interceptor-settings and the Role of config/interceptor, or start it with --envoy-settings=false"

// envoySettings is what is kept of a ConfigMap with settings of Envoy.
type envoySettings struct {
	tuning *model.Tuning
	wrong  string // why it cannot be used, "" for one that can
}

// reduceSettings reads such a ConfigMap.
func reduceSettings(object *corev1.ConfigMap) envoySettings {
	tuning, err := envoysettings.Parse(object.Data)
	if err != nil {
		return envoySettings{wrong: err.Error()}
	}
	return envoySettings{tuning: tuning}
}

// sameSettings says whether two versions are the same.
func sameSettings(before, after envoySettings) bool {
	return before.wrong == after.wrong && before.tuning.Equal(after.tuning)
}

// tuned is what is known of settings of Envoy, by the namespace whose objects they are for; "" is all.
type tuned struct {
	// inForce are the last good ones.
	inForce resolve.Tunings
	// wrong says what is wrong with those in the API server.
	wrong map[string]string
}

// take takes note of a ConfigMap.
func (t *tuned) take(namespace string, found piece[envoySettings]) {
	delete(t.wrong, namespace)
	switch {
	case !found.isThere:
		delete(t.inForce, namespace)
	case found.object.wrong != "":
		t.wrong[namespace] = found.object.wrong
	default:
		t.inForce[namespace] = found.object.tuning
	}
}

// mistake says what is wrong with the settings for the objects of a namespace: those of their own first.
func (t *tuned) mistake(namespace string) string {
	at, name := namespace, envoysettings.Name
	if t.wrong[at] == "" {
		at, name = "", envoysettings.GlobalName
	}
	if t.wrong[at] == "" {
		return ""
	}
	kept := "nothing of it is in force"
	if t.inForce[at] != nil {
		kept = "what it said before stays in force"
	}
	return fmt.Sprintf("ConfigMap %q: %s. Until that is corrected %s.", name, t.wrong[at], kept)
}

// watchSettings makes the stores of ConfigMaps with settings of Envoy, and what fills them.
func (l *Loop) watchSettings(sources Sources) {
	l.tuned = tuned{resolve.Tunings{}, map[string]string{}}
	add := func(lists cache.ListerWatcherWithContext, isGlobal bool) {
		objects := newStore(reduceSettings, sameSettings, l.wake)
		watchInto(l, toPublish, "configmaps with settings of Envoy", lists, &corev1.ConfigMap{}, objects)
		own := l.sources[len(l.sources)-1]
		own.remedy, own.isOptional, own.troubled = settingsRemedy, true, l.wake
		l.settings = append(l.settings, settingsStore{objects, isGlobal})
	}
	for _, lists := range sources.Settings {
		add(lists, false)
	}
	if sources.GlobalSettings != nil {
		add(sources.GlobalSettings, true)
	}
}

// settingsStore has the ConfigMaps of one list and watch.
type settingsStore struct {
	*store[envoySettings]

	isGlobal bool // They are for all objects.
}

// takeSettings takes note of what is new among the settings. It returns those that changed, and the objects that they are for.
func (l *Loop) takeSettings() (resolve.Tunings, []model.Key) {
	changed := resolve.Tunings{}
	for _, s := range l.settings {
		for key, piece := range s.take() {
			namespace, name := key.Namespace, envoysettings.Name
			if s.isGlobal {
				namespace, name = "", envoysettings.GlobalName
			}
			if key.Name == name {
				l.tuned.take(namespace, piece)
				changed[namespace] = l.tuned.inForce[namespace]
			}
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	var concerned []model.Key
	_, isForAll := changed[""]
	for key := range l.objects {
		if _, is := changed[key.Namespace]; is || isForAll {
			concerned = append(concerned, key)
		}
	}
	return changed, concerned
}
