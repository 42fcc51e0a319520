/* Symbols in the order of their tiles, and the choice of tables for tiles: what the encoder and the learner share. */
#ifndef CW_TILES_H
#define CW_TILES_H

#include "entropy.h"

#define CW_OWN_TABLES 16 /* of our own making; the format allows more */

typedef struct {
    u8 *symbols;      /* all planes' symbols, tile after tile */
    u64 n;
    u64 tiles;
    u32 *start;       /* [tiles + 1] */
    u8 *map;          /* [tiles] */
} cw_tiled;

/* Costs of one symbol with every table, side by side: one vector addition a symbol serves all tables. */
typedef u16 cw_cost_row __attribute__((vector_size(2 * CW_OWN_TABLES)));

CW_API void cw_tiles_gather(cw_tiled *t, const cw_plane *planes, u32 n_planes, unsigned tile_h, unsigned tile_w);
/* Of every `every`-th tile: symbols of each table's tiles are counted; the tile takes its cheapest table. */
CW_API void cw_tiles_count(const cw_tiled *t, u32 (*counts)[256], int tables, u64 every);
CW_API void cw_tiles_assign(cw_tiled *t, const cw_cost_row *costs, int tables, u64 every);
/* k-means with coding cost as the distance. Leaves counts of the clusters that are used, numbered without gaps; returns how many.
 * `thorough`: more rounds, over more tiles, and with the map's cost in mind. */
CW_API int cw_tiles_cluster(cw_tiled *t, int tables, int thorough, u32 (*counts)[256], cw_cost_row *costs);
CW_API int cw_tables_worth(u64 symbols, u64 tiles, u32 planes, u32 max_tables);

#endif
