package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAnyOrder plays random worlds, answers and delays, and wants two things
// whatever the order: a proxy never holds a route to a cluster that it can't
// serve, and when everything is ACKed it holds exactly the last world.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Delta, StateOfTheWorld} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				newModel(t, mode, seed).play(150)
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
		})
	}
}

// play takes random steps, then has everything accepted and settled.
func (m *model) play(steps int) {
	m.t.Helper()
	for range steps {
		switch dice := m.random.IntN(20); {
		case dice < 2:
			m.publish(m.randomWorld(""))
		case dice < 9:
			m.proxyStep()
		case dice < 17:
			m.serverStep()
		case dice < 19:
			m.pass(time.Duration(m.random.IntN(3000)) * time.Millisecond)
		default:
			if m.mode == Delta && m.random.IntN(4) == 0 {
				m.reconnect()
			}
		}
	}
	m.refuses = false
	m.publish(m.randomWorld("/final"))
	for range 4 {
		for len(m.toProxy)+len(m.toServer) > 0 {
			m.proxyStep()
			m.serverStep()
		}
		m.pass(2 * scriptGrace)
	}
	for k := range kind(kindCount) {
		want, got := versionsOf(m.world.resources[k]), versionsOf(m.held[k])
		if diff := cmp.Diff(want, got); diff != "" {
			m.fail(fmt.Sprintf("in the end the %ss differ (-world +proxy):\n%s", k, diff))
		}
	}
}

// randomWorld has up to six clusters and a route configuration to some of them.
func (m *model) randomWorld(suffix string) string {
	var items, names []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if m.random.IntN(2) == 0 {
			continue
		}
		version := fmt.Sprintf("/%d.%d", m.random.IntN(3), m.random.IntN(3))
		if suffix != "" {
			version = "/9.9"
		}
		item := name + version
		if m.random.IntN(5) == 0 {
			item = "static:" + item
		}
		items, names = append(items, item), append(names, name)
	}
	items = append(items, "listener:web"+suffix)
	for _, route := range []string{"web", "tls"} {
		targets := slices.DeleteFunc(slices.Clone(names), func(string) bool { return m.random.IntN(2) == 0 })
		if len(targets) > 0 {
			items = append(items, route+suffix+">"+strings.Join(targets, ","))
		} else {
			items = append(items, "static:default"+suffix, route+suffix+">default")
		}
	}
	return strings.Join(items, " ")
}
