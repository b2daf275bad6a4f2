package scenarios_test

import "fmt"

// control starts a controller for the scenario's Rollout.
func (s *environment) control(name string, flags ...string) {
	s.t.Helper()
	controller, err := s.controller(name, flags...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = controller.Kill() })
	s.controllers = append(s.controllers, controller)
}

// killed kills the scenario's own controller at each step.
func killed(s *environment) {
	starts := 0
	again := func() {
		starts++
		s.control(fmt.Sprint("killed-", s.namespace, "-", starts), "--leader-elect=false", "--instance-id",
			"killed-"+s.namespace)
	}
	kill := func() { _ = s.controllers[starts-1].Kill() }
	again()
	s.awaitPhase("Healthy")
	s.update("2")
	for _, weight := range []string{"20", "50"} {
		s.awaitSplit(weight)
		kill()
		again()
		ahead(weight)(s)
	}
	s.awaitSplit("100")
	kill()
	again()
	healthy(s)
}

// leaderKilled has two replicas of a controller and kills the leader.
func leaderKilled(s *environment) {
	if s.release.oneLease {
		s.lease.Lock()
		s.t.Cleanup(s.lease.Unlock) // when they have ended
	}
	for _, name := range []string{"a", "b"} {
		s.control(name+"-"+s.namespace, "--instance-id", "led-"+s.namespace, "--leader-election-lease-duration", "6s",
			"--leader-election-renew-deadline", "5s", "--leader-election-retry-period", "500ms")
		if name == "a" {
			s.awaitPhase("Healthy")
		}
	}
	s.update("2")
	s.awaitSplit("20")
	_ = s.controllers[0].Kill()
	play(ahead("20"), ahead("50"), healthy)(s)
}
