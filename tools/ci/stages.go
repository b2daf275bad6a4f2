package main

import "slices"

// Stage is one call of make.
type Stage struct {
	// Name is the stage's name in the output, and the name of its log file.
	Name string
	// Make has the targets and variables of the call.
	Make []string
	// Needs are the stages that must have passed first. If one of them is not part of the tier, it is ignored.
	Needs []string
	// After are the stages that must have ended first, regardless of their result.
	After []string
	// Alone means that no other stage runs at the same time.
	Alone bool
	// Cluster means that the stage uses the shared cluster, which the stage "cluster" starts.
	Cluster bool
	// OwnCluster means that the stage starts a cluster with a name of its own, and ends it.
	OwnCluster bool
	// GoTests means that the output is that of go test, so that only the failed tests run again.
	GoTests bool
	// BreaksInvariants means that the stage breaks invariants on purpose, so that its output is not searched for them.
	BreaksInvariants bool
	// Inputs make the stage cached. They are paths below the root of the repository.
	Inputs []string
}

// wholeTree is the inputs of a stage whose result may depend on any file of the repository.
func wholeTree() []string { return []string{"."} }

// clusterInputs are the paths that the behavior of the cluster's programs depends on, with extra paths.
func clusterInputs(extra ...string) []string {
	return append([]string{
		"api", "cmd", "internal", "go.mod", "go.sum", "config", "examples", "localcluster", "test/kit", "tools/ci", ".ci",
		"Makefile", "make",
	}, extra...)
}

// suiteInputs are clusterInputs with everything that the suites on a cluster share.
func suiteInputs(suite string, extra ...string) []string {
	return clusterInputs(append(extra, "e2e/testbed", "e2e/inside", "e2e/assert", "e2e/kube", "test/load", "e2e/provider",
		"test/load/stats", "e2e/trace", "e2e/envoyadmin", suite)...)
}

// shared makes a suite use the cluster that runs, and the test programs that "make suites" built.
func shared(target string, variables ...string) []string {
	return append([]string{target, "E2E_SHARED=1", "BUILT=1"}, variables...)
}

// quick are the stages of the inner loop.
func quick() []Stage {
	return slices.Concat(builds(), []Stage{
		{Name: "lint", Make: []string{"lint"}, Inputs: wholeTree()},
		{Name: "unit", Make: []string{"test-unit"}, Needs: []string{"programs"}, GoTests: true},
		{Name: "inside", Make: []string{"test-inside"}, Needs: []string{"parts"}, GoTests: true},
		{
			Name: "demo", Make: []string{"demo", "ARGS=--only=canary"}, Needs: []string{"parts"},
			After: []string{"lint", "unit", "inside"}, Alone: true,
		},
	})
}

// builds are the stages that build the components of the cluster.
func builds() []Stage {
	return []Stage{
		{Name: "programs", Make: []string{"tools-cluster"}},
		{Name: "parts", Make: []string{"parts"}, Needs: []string{"programs"}},
	}
}

// landing are the stages that decide whether a change lands. Stages that compile come first: next to a compiler or a
// linter, whatever its priority, requests to the cluster are late or fail. Then two lanes run on the shared cluster:
//
//   - autowire, demo, commands, scaling
//   - rollover, canary, gateway
//
// autowire kills the agents, and they restore every Ingress. rollover replaces the interceptors, and each proxy
// receives its listener again. Both disturb the demo and the commands, so these run after them. Envoy Gateway answers
// with 503 under load when a header route is removed, so its guides do not run in parallel with the canaries of 250
// requests per second.
func landing() []Stage {
	return slices.Concat(builds(), []Stage{
		{Name: "gateway-parts", Make: []string{"gateway-parts"}, Needs: []string{"programs"}},
		{Name: "docs", Make: []string{"test-site"}, After: []string{"parts"}, Inputs: wholeTree()},
		{
			Name: "alerts", Make: []string{"test-rules"}, After: []string{"parts"}, Inputs: []string{
				"tools/promrules", "config/prometheus", "config/grafana", "test/chart/testdata", "docs/how-to/monitoring.md",
				"docs/how-to/upgrade.md", "docs/pictures", "Makefile", "make",
			},
		},
		{
			Name: "release-config", Make: []string{"check-release"}, After: []string{"parts"},
			Inputs: []string{".goreleaser.yaml", "tools/goreleaser", "Makefile", "make"},
		},
		{
			Name: "unit", Make: []string{"test-unit", "SHUFFLE=on"}, After: []string{"parts"}, GoTests: true,
			Inputs: wholeTree(),
		},
		{Name: "lint", Make: []string{"lint"}, After: []string{"unit"}, Inputs: wholeTree()},
		{Name: "residue", Make: []string{"test-cluster"}, Needs: []string{"parts"}, Inputs: clusterInputs()},
		{Name: "suites", Make: []string{"suites"}, Needs: []string{"programs"}, After: []string{"unit"}},
		{Name: "inside", Make: []string{"test-inside"}, Needs: []string{"parts", "gateway-parts"}, GoTests: true},
		{Name: "outside", Make: []string{"test-outside"}, Needs: []string{"parts", "gateway-parts"}, GoTests: true},
		// The residue test starts clusters of its own, and the node of the shared cluster would disturb tests that measure
		// heaps.
		{
			Name: "cluster", Make: []string{"cluster-up-shared"}, Needs: []string{"parts", "gateway-parts"},
			After: []string{"residue", "inside", "lint"},
		},
		suite(Stage{
			Name: "autowire", Make: shared("test-autowire", "AUTOWIRE=TestAutowire"),
			Inputs: suiteInputs("e2e/suites/autowire", "docs/how-to/autowire.md", "docs/how-to/autowire-retries.md"),
		}),
		suite(Stage{Name: "rollover", Make: shared("test-canary", "CANARY=TestRollover")}),
		suite(Stage{Name: "demo", Make: []string{"demo", "ARGS=--only=canary"}}, "autowire", "rollover"),
		suite(Stage{Name: "canary", Make: shared("test-canary", "CANARY=TestCanary")}, "rollover"),
		suite(Stage{Name: "commands", Make: shared("test-canary", "CANARY=TestCommands")}, "demo"),
		suite(Stage{Name: "scaling", Make: []string{"demo", "ARGS=--only=scaling"}}, "commands"),
		suite(Stage{
			Name: "gateway", Make: shared("test-gateway", "GATEWAY_WALKS=my-app,connections,bookinfo"),
			Inputs: suiteInputs("e2e/suites/gateway", "docs/tutorials", "docs/how-to"),
		}, "canary"),
	})
}

// suite completes a stage on the shared cluster.
func suite(s Stage, after ...string) Stage {
	s.Cluster = true
	s.Needs = []string{"cluster", "suites"}
	s.After = append([]string{"outside"}, after...)
	return s
}

// full are all stages: those of the landing tier, the other suites on the shared cluster, and then the suites that
// start clusters of their own. Two of these run at a time, because they wait most of the time.
func full() []Stage {
	stages := landing()
	for i := range stages {
		if stages[i].Name == "gateway" {
			stages[i].Make = shared("test-gateway")
		}
		stages[i].Inputs = wholeTree()
	}
	last := []string{"scaling", "gateway"}
	stages = append(stages,
		Stage{
			Name: "mutants", Make: shared("test-mutants"), Needs: []string{"cluster", "suites"}, After: last, Alone: true,
			Cluster: true, BreaksInvariants: true, Inputs: wholeTree(),
		},
		Stage{
			Name: "faults", Make: shared("faults", "FAULTS_ROUNDS=5"), Needs: []string{"cluster", "suites"},
			After: []string{"mutants"}, Alone: true, Cluster: true, Inputs: wholeTree(),
		},
		Stage{Name: "cluster-down", Make: []string{"cluster-down"}, After: []string{"faults"}, Alone: true},
		// It compiles for a quarter of an hour, if nothing is cached.
		Stage{
			Name: "keda-parts", Make: []string{"keda-parts"}, Needs: []string{"parts"}, After: []string{"cluster-down"},
			Alone: true,
		},
		Stage{
			Name: "istio-parts", Make: []string{"istio-parts"}, Needs: []string{"gateway-parts"},
			After: []string{"keda-parts"}, Alone: true,
		},
		Stage{
			Name: "kubernetes-parts", Make: []string{"parts", "KUBERNETES=1.37.2"}, Needs: []string{"parts"},
			After: []string{"istio-parts"}, Alone: true,
		},
		Stage{
			Name: "argocd-parts", Make: []string{"argocd-parts"}, Needs: []string{"gateway-parts"},
			After: []string{"kubernetes-parts"}, Alone: true,
		},
		Stage{
			Name: "contour-parts", Make: []string{"contour-parts"}, Needs: []string{"parts"},
			After: []string{"argocd-parts"}, Alone: true,
		},
	)
	for _, s := range ownClusters() {
		s.Needs, s.After = append(s.Needs, "parts"), append(s.After, "cluster-down")
		s.Inputs = wholeTree()
		stages = append(stages, s)
	}
	return stages
}

// ownClusters are the stages that start clusters of their own, or none.
func ownClusters() []Stage {
	return []Stage{
		{Name: "autoscaling", Make: []string{"test-autoscaling"}, OwnCluster: true},
		{Name: "zero", Make: []string{"test-zero"}, OwnCluster: true},
		// It kills proxies under load: a proxy or Traefik that notices this late, for lack of processor time, fails
		// requests.
		{
			Name: "autowire-rest", OwnCluster: true, Alone: true,
			Make: []string{"test-autowire", "AUTOWIRE=TestProxies|TestRetries|TestShared|TestProbes|TestServices"},
		},
		{
			Name: "autowire-contour", Make: []string{"test-autowire", "AUTOWIRE=TestAutowire", "INGRESS=contour"},
			OwnCluster: true, Needs: []string{"contour-parts"},
		},
		{
			Name: "autowire-istio", Make: []string{"test-autowire", "AUTOWIRE=TestAutowire", "INGRESS=istio"},
			OwnCluster: true, Needs: []string{"istio-parts"},
		},
		{
			Name: "gateway-contour", Make: []string{"test-gateway", "GATEWAY=contour"}, OwnCluster: true,
			Needs: []string{"contour-parts"},
		},
		{
			Name: "gateway-istio", Make: []string{"test-gateway", "GATEWAY=istio"}, OwnCluster: true,
			Needs: []string{"istio-parts"},
		},
		{
			Name: "gateway-istio-1.2", OwnCluster: true, Needs: []string{"istio-parts"},
			Make: []string{"test-gateway", "GATEWAY=istio", "GATEWAY_CRDS=1.2.1", "GATEWAY_WALKS=my-app"},
		},
		// It compares latencies at 250 requests per second.
		{Name: "traffic", Make: []string{"test-traffic"}, OwnCluster: true, Alone: true},
		{Name: "try", Make: []string{"test-canary", "CANARY=TestTry"}, OwnCluster: true},
		{Name: "guide", Make: []string{"test-guide"}, OwnCluster: true},
		{Name: "routes", Make: []string{"test-routes"}, OwnCluster: true},
		{Name: "tls", Make: []string{"test-tls"}, OwnCluster: true},
		{Name: "workloads", Make: []string{"test-workloads"}, OwnCluster: true},
		{Name: "keda", Make: []string{"test-keda"}, OwnCluster: true},
		{Name: "keda-2.18", Make: []string{"test-keda", "KEDA=2.18.3"}, OwnCluster: true, Needs: []string{"keda-parts"}},
		{Name: "keda-2.20", Make: []string{"test-keda", "KEDA=2.20.2"}, OwnCluster: true, Needs: []string{"keda-parts"}},
		{Name: "keda-2.21", Make: []string{"test-keda", "KEDA=2.21.0"}, OwnCluster: true, Needs: []string{"keda-parts"}},
		{
			Name: "canary-1.37", OwnCluster: true, Needs: []string{"kubernetes-parts"},
			Make: []string{"test-canary", "KUBERNETES=1.37.2"},
		},
		{
			Name: "zero-1.37", OwnCluster: true, Needs: []string{"kubernetes-parts"},
			Make: []string{"test-zero", "KUBERNETES=1.37.2"},
		},
		{Name: "argocd", Make: []string{"test-argocd"}, Needs: []string{"argocd-parts"}},
		{Name: "scenarios-1.9", Make: []string{"test-scenarios", "ROLLOUTS=1.9.1"}},
		{Name: "scenarios-1.10", Make: []string{"test-scenarios", "ROLLOUTS=1.10.1"}},
		// Their controllers require a newer Go, which is downloaded.
		{Name: "scenarios-1.9.3", Make: []string{"test-scenarios", "ROLLOUTS=1.9.3"}},
		{Name: "scenarios-1.10.2", Make: []string{"test-scenarios", "ROLLOUTS=1.10.2"}},
		// This stage and release compile for all platforms.
		{Name: "install", Make: []string{"test-install"}, OwnCluster: true, Alone: true},
		{Name: "migration", Make: []string{"test-migration"}, OwnCluster: true},
		{Name: "install-plugin", Make: []string{"test-plugin"}, OwnCluster: true},
		// It sends 250 requests per second while all components are replaced.
		{Name: "helm", Make: []string{"test-helm"}, OwnCluster: true, Alone: true},
		// Both this stage and install write to the folder dist.
		{Name: "release", Make: []string{"test-release"}, After: []string{"install"}, OwnCluster: true, Alone: true},
	}
}
