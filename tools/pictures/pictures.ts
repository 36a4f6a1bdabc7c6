import { renderDiagram } from './diagram.ts';
import { apiPacket, elections } from './api-diagrams.ts';
import { servicesPacket, servicesParts, devices } from './services-diagrams.ts';
import { renderFailover } from './failover.ts';

/** What draws each picture of docs/pictures, by its file's name: from this repository alone, or as a recording of a run. */
export const pictures: Readonly<Record<string, () => string | Promise<string>>> = {
  'api-packet': () => renderDiagram(apiPacket),
  'services-packet': () => renderDiagram(servicesPacket),
  elections: () => renderDiagram(elections),
  'services-parts': () => renderDiagram(servicesParts),
  devices: () => renderDiagram(devices),
  failover: renderFailover,
  // Its run needs what the others do not.
  'failover-recording': async () => (await import('./record.ts')).recordFailover(),
};
