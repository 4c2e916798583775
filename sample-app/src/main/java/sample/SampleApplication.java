package sample;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A small order service. Start it as often as you like: instances on one database are one cluster. */
@SpringBootApplication
public class SampleApplication {

    private static final int USUAL_PORT = 8080;

    public static void main(String[] args) {
        var application = new SpringApplication(SampleApplication.class);
        application.setDefaultProperties(Map.of("server.port", port()));
        application.run(args);
    }

    /**
     * The usual port for the first instance on a machine, any free one for the others. The lock lasts as long as this
     * process: two that start at the same moment cannot both find the port free.
     */
    private static int port() {
        try {
            Path file = Path.of(System.getProperty("java.io.tmpdir"), "forge-sample-%d.lock".formatted(USUAL_PORT));
            FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (channel.tryLock() == null) {
                return 0;
            }
            try (var probe = new ServerSocket(USUAL_PORT)) {
                return probe.getLocalPort();
            }
        } catch (IOException taken) {
            return 0;
        }
    }
}
