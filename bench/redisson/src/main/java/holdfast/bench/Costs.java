package holdfast.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/** What the process costs. */
final class Costs {

    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Costs() {
    }

    static long cpu() {
        return SYSTEM.getProcessCpuTime();
    }

    /** What is in use after a collection. */
    static double heap() {
        System.gc();
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
