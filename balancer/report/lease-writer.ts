import * as z from 'zod/mini';
import { version } from '../../lib/kubernetes/api-object.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { type ObjectWrite } from '../../lib/kubernetes/write-object.ts';
import { apiGroup, reportAnnotations } from '../../lib/services/names.ts';
import {
  leaseDurationMs,
  type NodeReport,
  toAnnotations,
  toLeaseName,
  toLeaseResource,
} from '../../lib/services/node-report.ts';

/** Where the Lease is written. */
export interface LeasePlace {
  readonly client: ObjectClient;
  readonly node: string;
  readonly namespace: string;
}

/** An apiserver answers in milliseconds. */
const limitMs = 4000;

/** A write after a conflict reads again; whoever else writes this Lease does it once. */
const maxTries = 3;

const stored = z.object({
  metadata: z.object({
    resourceVersion: version,
    annotations: z.nullish(z.record(z.string(), z.string())),
  }),
});

/** Writes one node's Lease, and makes it where there is none. One write at a time. */
export class LeaseWriter {
  readonly #place: LeasePlace;
  readonly #collection: string;
  readonly #name: string;
  readonly #path: string;
  /** Of the Lease, as it was read or written last; null where that is not known. */
  #version: string | null = null;
  /** Annotations that only another version of vipnat writes, until they are removed. */
  #unknown: readonly string[] = [];

  constructor(place: LeasePlace) {
    this.#place = place;
    this.#collection = toLeaseResource(place.namespace).path;
    this.#name = toLeaseName(place.node);
    this.#path = `${this.#collection}/${this.#name}`;
  }

  /**
   * Renews the Lease at that time with this report; without one, what the Lease says stays. Answers null, or why it was not taken: a
   * sentence. Never rejects.
   */
  async write(report: NodeReport | null, renewTime: string): Promise<string | null> {
    let words = '';
    for (let tries = 0; tries < maxTries; tries += 1) {
      const answer = await this.#writeOnce(report, renewTime);
      if (answer.outcome === 'taken') return null;
      words = answer.words;
      if (!['conflict', 'exists', 'gone'].includes(answer.outcome)) return words;
    }
    return words;
  }

  async #writeOnce(
    report: NodeReport | null,
    renewTime: string,
  ): Promise<{ readonly outcome: string; readonly words: string }> {
    const { client } = this.#place;
    if (this.#version === null) {
      const read = await client.read(
        { title: `reading Lease ${this.#name}`, path: this.#path, schema: stored },
        limitMs,
      );
      if (read.outcome === 'forbidden' || read.outcome === 'unreachable') return read;
      this.#version = read.outcome === 'found' ? read.object.metadata.resourceVersion : null;
      if (read.outcome === 'found') this.#unknown = listUnknown(read.object.metadata.annotations ?? {});
    }
    const answer = await client.write(this.#toWrite(report, renewTime), limitMs);
    this.#version = answer.version;
    if (answer.outcome === 'taken' && report !== null) this.#unknown = [];
    return answer;
  }

  /** Creates it, or changes the version that is known. */
  #toWrite(report: NodeReport | null, renewTime: string): ObjectWrite {
    const { node } = this.#place;
    const spec = { holderIdentity: node, leaseDurationSeconds: leaseDurationMs / 1000, renewTime };
    const isNew = this.#version === null;
    const said = report ?? (isNew ? { ...nothing, node } : null);
    const annotations = said === null ? {} : toAnnotations(said);
    const removed = report === null ? {} : Object.fromEntries(this.#unknown.map((name) => [name, null]));
    return isNew
      ? {
          title: `creating Lease ${this.#name}`,
          method: 'POST',
          path: this.#collection,
          body: { ...leaseType, metadata: { name: this.#name, annotations }, spec },
        }
      : {
          title: `renewing Lease ${this.#name}`,
          method: 'PATCH',
          path: this.#path,
          body: {
            metadata: { resourceVersion: this.#version, annotations: { ...removed, ...annotations } },
            spec,
          },
        };
  }
}

/** What a later version has said counts no more once this one reports: nobody else would ever take it back. */
function listUnknown(annotations: Readonly<Record<string, string>>): string[] {
  const known: readonly string[] = Object.values(reportAnnotations);
  return Object.keys(annotations).filter((name) => name.startsWith(`${apiGroup}/`) && !known.includes(name));
}

/** Of a node that has done nothing yet. */
const nothing: Omit<NodeReport, 'node'> = { programmed: {}, seats: [], mode: 'none', inUse: [] };

const leaseType = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };
