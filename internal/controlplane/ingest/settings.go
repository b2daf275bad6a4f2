package ingest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// settingsFix is the instruction for granting access to the ConfigMaps with settings of Envoy.
const settingsFix = "bind ClusterRole kedify-http-interceptor-settings and the Role of config/interceptor, or start " +
	"it with --envoy-settings=false"

// parsedSettings is what is stored of a ConfigMap with settings of Envoy.
type parsedSettings struct {
	settings *model.EnvoySettings
	reason   string // why the settings are invalid, "" for valid settings
}

// reduceSettings parses the ConfigMap.
func reduceSettings(object *corev1.ConfigMap) parsedSettings {
	settings, err := envoysettings.Parse(object.Data)
	if err != nil {
		return parsedSettings{reason: err.Error()}
	}
	return parsedSettings{settings: settings}
}

// isSameSettings reports whether two versions are equal.
func isSameSettings(before, after parsedSettings) bool {
	return before.reason == after.reason && before.settings.Equal(after.settings)
}

// settingsState are the settings of Envoy by namespace of the objects that they apply to. The key "" applies to all
// objects.
type settingsState struct {
	// active are the last valid settings.
	active resolve.SettingsByNamespace
	// errors are the validation errors of the current ConfigMaps.
	errors map[string]string
}

// update processes a changed ConfigMap.
func (s *settingsState) update(namespace string, change objectChange[parsedSettings]) {
	delete(s.errors, namespace)
	switch {
	case !change.exists:
		delete(s.active, namespace)
	case change.object.reason != "":
		s.errors[namespace] = change.object.reason
	default:
		s.active[namespace] = change.object.settings
	}
}

// errorFor returns the validation error of the settings for the objects of a namespace, "" if there is none. An error
// in the namespace's own ConfigMap takes precedence.
func (s *settingsState) errorFor(namespace string) string {
	scope, name := namespace, envoysettings.Name
	if s.errors[scope] == "" {
		scope, name = "", envoysettings.GlobalName
	}
	if s.errors[scope] == "" {
		return ""
	}
	fallback := "none of its settings are active"
	if s.active[scope] != nil {
		fallback = "its previous settings stay active"
	}
	return fmt.Sprintf("ConfigMap %q: %s (until corrected, %s)", name, s.errors[scope], fallback)
}

// watchSettings creates the stores and sources of the ConfigMaps with settings of Envoy.
func (l *Loop) watchSettings(sources Sources) {
	l.envoySettings = settingsState{resolve.SettingsByNamespace{}, map[string]string{}}
	add := func(listWatch cache.ListerWatcherWithContext, isGlobal bool) {
		configMaps := newStore(reduceSettings, isSameSettings, l.wake)
		watchInto(l, gatePublication, "configmaps with settings of Envoy", listWatch, &corev1.ConfigMap{}, configMaps)
		added := l.sources[len(l.sources)-1]
		added.fix, added.isOptional, added.notify = settingsFix, true, l.wake
		l.settings = append(l.settings, settingsStore{configMaps, isGlobal})
	}
	for _, listWatch := range sources.Settings {
		add(listWatch, false)
	}
	if sources.GlobalSettings != nil {
		add(sources.GlobalSettings, true)
	}
}

// settingsStore contains the ConfigMaps of one list and watch.
type settingsStore struct {
	*store[parsedSettings]

	isGlobal bool // The settings apply to all objects.
}

// takeSettings processes changed settings. It returns the changes and the objects to which they apply.
func (l *Loop) takeSettings() (resolve.SettingsByNamespace, []model.Key) {
	changed := resolve.SettingsByNamespace{}
	for _, s := range l.settings {
		for key, change := range s.take() {
			namespace, name := key.Namespace, envoysettings.Name
			if s.isGlobal {
				namespace, name = "", envoysettings.GlobalName
			}
			if key.Name == name {
				l.envoySettings.update(namespace, change)
				changed[namespace] = l.envoySettings.active[namespace]
			}
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	var affected []model.Key
	_, isForAll := changed[""]
	for key := range l.objects {
		if _, isChanged := changed[key.Namespace]; isChanged || isForAll {
			affected = append(affected, key)
		}
	}
	return changed, affected
}
