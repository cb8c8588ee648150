package holdfast.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/** The CPU and the heap that the process uses. */
final class Costs {

    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Costs() {
    }

    static long cpu() {
        return SYSTEM.getProcessCpuTime();
    }

    /** Returns the heap in use, after two collections. */
    static double heap() {
        System.gc();
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
