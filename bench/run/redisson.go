package run

import (
	"os/exec"
	"strings"
)

const (
	redissonDir = "redisson"
	redissonJar = "redisson/target/load.jar"
	jdk         = "a JDK 17 or later and Maven (Debian, Ubuntu: apt-get install default-jdk-headless maven)"
)

// startJVM starts the process that runs Redisson, unless it already runs. The whole run uses one process, so that the JVM has compiled Redisson
// before Redisson is measured.
func (r *Run) startJVM() error {
	if r.jvm != nil {
		return nil
	}
	java, err := find("java", jdk)
	if err != nil {
		return err
	}
	if err := inHere(redissonDir); err != nil {
		return err
	}
	if older(redissonJar, redissonDir) {
		maven, err := find("mvn", jdk)
		if err != nil {
			return err
		}
		r.show.now("redisson: Maven builds its process")
		if err := build(redissonDir, maven, "-B", "-q", "package"); err != nil {
			return err
		}
	}
	// Ten thousand threads need smaller stacks than Java's default. All other settings of the JVM are its defaults.
	if r.jvm, err = start("redisson", exec.Command(java, "-Xss256k", "-jar", redissonJar)); err != nil {
		return err
	}
	out, _ := exec.Command(java, "-version").CombinedOutput()
	version, _, _ := strings.Cut(string(out), "\n")
	r.results.AddVersion("java", version)
	r.results.AddVersion("redisson", "4.7.0")
	return nil
}

// openRedisson orders the JVM to open a Redisson client for each client of each process.
func (c *contender) openRedisson() error {
	if err := c.run.startJVM(); err != nil {
		return err
	}
	c.processes, c.shared = []*process{c.run.jvm}, true
	w := c.w
	w.Clients, w.Processes = w.Clients*w.Processes, 1
	err := c.openAll(w)
	if err != nil {
		c.discard()
	}
	return err
}

// discard kills a shared process after an error: the process may still be busy with the failed workload. The next workload starts a new one.
func (c *contender) discard() {
	if c.shared && c.run.jvm != nil {
		c.run.jvm.kill()
		c.run.jvm, c.processes = nil, nil
	}
}
