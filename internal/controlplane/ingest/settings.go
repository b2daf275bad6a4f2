package ingest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve"
	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/resolve/envoysettings"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// settingsFix is the instruction for granting access to the ConfigMaps with settings of Envoy.
const settingsFix = "bind ClusterRole kedify-http-interceptor-settings and the Role of config/interceptor, or start " +
	"it with --envoy-settings=false"

// reduceSettings parses the ConfigMap.
func reduceSettings(object *corev1.ConfigMap) envoysettings.Parsed {
	return envoysettings.Parse(object.Data)
}

// settingsState are the settings of Envoy by namespace of the objects that they apply to. The key "" applies to all
// objects.
type settingsState struct {
	// active are the settings in effect, and valid are the contents that they are from: invalid values of the current
	// ConfigMaps are replaced by previous ones.
	active resolve.SettingsByNamespace
	valid  map[string]envoysettings.Parsed
	// errors are the validation errors of the current ConfigMaps.
	errors map[string]string
}

// update processes a changed ConfigMap.
func (s *settingsState) update(namespace string, change objectChange[envoysettings.Parsed]) {
	delete(s.errors, namespace)
	if !change.exists {
		delete(s.active, namespace)
		delete(s.valid, namespace)
		return
	}
	merged := change.object.Over(s.valid[namespace])
	settings, problems := merged.Settings()
	s.active[namespace], s.valid[namespace] = settings, merged
	if problems = slices.Concat(merged.Problems, problems); len(problems) > 0 {
		s.errors[namespace] = strings.Join(problems, "; ")
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
	return fmt.Sprintf("ConfigMap %q: %s (until corrected, these settings keep their previous values, if any; "+
		"all others are active)", name, s.errors[scope])
}

// watchSettings creates the stores and sources of the ConfigMaps with settings of Envoy.
func (l *Loop) watchSettings(sources Sources) {
	l.envoySettings = settingsState{
		resolve.SettingsByNamespace{}, map[string]envoysettings.Parsed{}, map[string]string{},
	}
	add := func(listWatch cache.ListerWatcherWithContext, isGlobal bool) {
		configMaps := newStore(reduceSettings, envoysettings.Parsed.Equal, l.wake)
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
	*store[envoysettings.Parsed]

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
